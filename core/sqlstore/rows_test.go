package sqlstore_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

const hash = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// age puts the times of all rows into the past.
func age(t *testing.T, db *sql.DB, d time.Duration) {
	t.Helper()
	by := d.Microseconds()
	execute(t, db, fmt.Sprintf(`UPDATE oncekey_records SET lease_until = lease_until - %d, retain_until = retain_until - %d,
expires_at = expires_at - %d, sweep_after = sweep_after - %d`, by, by, by, by))
}

// sweeps expects a Sweep to remove a number of records.
func sweeps(t *testing.T, store *sqlstore.Store, want int64) {
	t.Helper()
	if removed, err := store.Sweep(t.Context(), 3); err != nil || removed != want {
		t.Errorf("Sweep removed %d (%v), want %d", removed, err, want)
	}
}

// The sweeper removes what has expired, and of what is remembered longer it leaves a
// tombstone.
func TestSweep(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		for n := range 7 {
			finish(t, store, fmt.Sprint("expired ", n))
		}
		remembered := claim("remembered")
		remembered.Fingerprint, remembered.Digest, remembered.Remember = hash, storage.Digest{1}, 24*time.Hour
		res := result("secret")
		res.Remember = remembered.Remember
		must(t, store.Complete(t.Context(), win(t, store, remembered), res))
		abandoned := remembered
		abandoned.Key = "abandoned"
		win(t, store, abandoned)
		if wrong := queryOne[int](t, db, `SELECT count(*) FROM oncekey_records WHERE sweep_after % 3600000000 <> 0
OR sweep_after - coalesce(retain_until, expires_at) NOT BETWEEN 1 AND 3600000000`); wrong != 0 {
			t.Errorf("the sweeper looks at %d rows at another time than the full hour after their end", wrong)
		}
		age(t, db, 3*time.Hour)
		finish(t, store, "running on")
		var swept atomic.Int64
		counted := sqlstore.New(db, s.dialect, sqlstore.CountSwept(&swept))
		if removed, err := counted.Sweep(t.Context(), 3); err != nil || removed != 7 || swept.Load() != 7 {
			t.Errorf("Sweep removed %d (%v) and counted %d, want 7", removed, err, swept.Load())
		}
		counts(t, db, 3, `SELECT count(*) FROM oncekey_records`)
		for key, status := range map[string]int{"remembered": 201, "abandoned": 0} {
			c := takeOver(key)
			if r := find(t, store, c); r.State != storage.Expired || r.Status != status || r.Fingerprint != hash || r.Digest != remembered.Digest {
				t.Errorf("the record of %q is %+v, want its tombstone", key, r)
			}
			size := queryOne[int](t, db, `SELECT coalesce(length(body), 0) + coalesce(length(header), 0) + coalesce(length(sketch), 0) + coalesce(length(origin), 0) +
length(fingerprint) + length(state) + coalesce(length(digest), 0) FROM oncekey_records WHERE record_key = '`+key+`'`)
			if state := queryOne[string](t, db, `SELECT state FROM oncekey_records WHERE record_key = '`+key+`'`); state != "gone" || size > 64 {
				t.Errorf("the row of %q is %s with %d bytes, want gone with at most 64", key, state, size)
			}
		}
		replays(t, store, claim("running on"), "running on")
		sweeps(t, store, 0)
		age(t, db, 48*time.Hour)
		sweeps(t, store, 3)
	})
}

// A sweep waits for no transaction that holds a row.
func TestSweepSkipsLockedRows(t *testing.T) {
	t.Parallel()
	over(t, []setUp{postgresql, libpq}, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		for _, key := range []string{"held", "free 1", "free 2"} {
			finish(t, store, key)
		}
		age(t, db, 3*time.Hour)
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.ExecContext(t.Context(), `SELECT 1 FROM oncekey_records WHERE record_key = 'held' FOR UPDATE`)
		must(t, err)
		sweeps(t, store, 2)
		sweeps(t, store, 0)
		must(t, tx.Rollback())
		sweeps(t, store, 1)
	})
}

// A clock that was set back leaves claims of the future. Their renewed leases still run.
func TestRenewedLeaseAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		lease := win(t, store, claim("key"))
		execute(t, db, fmt.Sprintf(`UPDATE oncekey_records SET claimed_at = claimed_at + %d`, (24*time.Hour).Microseconds()))
		must(t, store.Extend(t.Context(), lease, lease.LockTTL))
		if r := find(t, store, takeOver("key")); r.Abandoned() || r.LeaseLeft > lease.LockTTL {
			t.Errorf("the lease lasts for %s, want up to %s", r.LeaseLeft, lease.LockTTL)
		}
		must(t, store.Extend(t.Context(), lease, 0))
		testkit.Equal(t, win(t, store, takeOver("key")).Attempt, 2, "the attempt after the lease has ended")
	})
}

// Case matters in a key. MySQL's default collations ignore it.
func TestKeysAreComparedAsBytes(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store, _ := s.open(t)
		finish(t, store, "key")
		testkit.Equal(t, win(t, store, claim("KEY")).Attempt, 1, "the attempt of another key")
		replays(t, store, claim("key"), "key")
	})
}

func TestRunSweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, db := sqliteMemory.open(t)
		store := sqlstore.New(db, sqlstore.SQLite(), sqlstore.Logger(slog.New(slog.DiscardHandler)))
		finish(t, store, "key")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			store.RunSweeper(ctx, time.Minute)
		}()
		time.Sleep(4 * time.Hour) //nolint:forbidigo // in a bubble
		counts(t, db, 0, `SELECT count(*) FROM oncekey_records`)
		cancel()
		<-done
	})
}

// Case 20: no handler runs for a row that this version cannot read, and a list skips it.
func TestRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		_, db := s.open(t)
		var log strings.Builder
		store := sqlstore.New(db, s.dialect, sqlstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		broken := map[string]string{
			"future":       "version = 2",
			"no attempt":   "attempt = 0",
			"released":     "attempt = 0, state = 'released'",
			"abandoned":    "attempt = 0, state = 'in_progress', lease_until = 1",
			"no state":     "state = 'odd'",
			"gone":         "state = 'expired'",
			"no status":    "status = 7",
			"no lease":     "state = 'in_progress', lease_until = NULL",
			"header":       `header = '{"a":1}'`,
			"header field": `header = '[["put","A","b"]]'`,
			"header text":  `header = '[["set"'`,
			"origin":       `origin = '\'`,
		}
		named := []string{"no attempt"}
		if s.database == "sqlite" { // a column of numbers takes any text
			broken["no number"], named = "attempt = 'odd'", append(named, "no number")
			broken["long state"] = "state = hex(zeroblob(30000))" // too long for a pattern of LIKE
		}
		for key, change := range broken {
			finish(t, store, key)
			if s.database == "mysql" {
				change = strings.ReplaceAll(change, `\`, `\\`)
			}
			execute(t, db, `UPDATE oncekey_records SET `+change+` WHERE record_key = '`+key+`'`)
		}
		finish(t, store, "good")
		for key := range broken {
			_, _, err := store.Acquire(t.Context(), takeOver(key))
			fails(t, "Acquire of "+key, err, storage.ErrCorruptRecord)
			_, err = store.Lookup(t.Context(), key)
			fails(t, "Lookup of "+key, err, storage.ErrCorruptRecord)
		}
		// A list does not read headers.
		listing, err := store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 100})
		const headers = 3
		if err != nil || len(listing.Entries) != headers+1 || listing.LookedAt != len(broken)+1 {
			t.Errorf("List returned %d of %d records and %v", len(listing.Entries), listing.LookedAt, err)
		}
		completed, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 100})
		if err != nil || len(completed.Entries) != headers+1 {
			t.Errorf("List returned %d completed records and %v", len(completed.Entries), err)
		}
		for _, key := range named {
			if !strings.Contains(log.String(), fmt.Sprintf("key=%q", key)) {
				t.Errorf("the log does not name the skipped key %q:\n%s", key, &log)
			}
		}
		execute(t, db, `UPDATE oncekey_records SET expires_at = 9223372036854775807, retain_until = 9223372036854775807 WHERE record_key = 'good'`)
		record, err := store.Lookup(t.Context(), "good")
		must(t, err)
		_, err = json.Marshal(record.Expires) // the inspector's lists are JSON
		must(t, err)
	})
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		db := s.connect(t, s.dsn(t))
		testkit.Concurrently(5, func(int) { // all instances migrate at their start
			if err := sqlstore.Migrate(t.Context(), db, s.dialect); err != nil {
				t.Error(err)
			}
		})
		finish(t, sqlstore.New(db, s.dialect), "key")
		must(t, sqlstore.Migrate(t.Context(), db, s.dialect)) // changes nothing
		replays(t, sqlstore.New(db, s.dialect), claim("key"), "key")
		counts(t, db, len(sqlstore.Migrations(s.dialect)), `SELECT max(version) FROM oncekey_records_migrations`)
	})
}

// A tool runs the statements one by one, for a table of another name. Migrate continues.
func TestMigrationsForATool(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		db, table := s.connect(t, s.dsn(t)), sqlstore.Table("shop_records")
		for _, migration := range sqlstore.Migrations(s.dialect, table) {
			for _, statement := range strings.SplitAfter(migration.SQL, ";\n") {
				if strings.TrimSpace(statement) != "" {
					execute(t, db, statement)
				}
			}
		}
		store := sqlstore.New(db, s.dialect, table)
		finish(t, store, "key")
		counts(t, db, len(sqlstore.Migrations(s.dialect)), `SELECT max(version) FROM shop_records_migrations`)
		must(t, sqlstore.Migrate(t.Context(), db, s.dialect, table))
		replays(t, store, claim("key"), "key")
	})
}

// A schema and a table may have long names.
func TestTableInASchema(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		db, schema := s.connect(t, s.dsn(t)), fmt.Sprintf("payments_of_%s_%s", s.driver, strings.Repeat("x", 32))
		execute(t, db, `CREATE SCHEMA `+schema)
		t.Cleanup(func() {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), `DROP SCHEMA `+schema+map[string]string{"postgresql": " CASCADE"}[s.database])
			must(t, err)
		})
		table := sqlstore.Table(schema + ".records_" + strings.Repeat("x", 33))
		must(t, sqlstore.Migrate(t.Context(), db, s.dialect, table))
		store := sqlstore.New(db, s.dialect, table)
		goThroughLife(t, store, "key")
		for _, f := range store.Examine(t.Context()) {
			if f.Grade == storage.Skipped {
				t.Errorf("the finding %+v is skipped, want it made", f)
			}
		}
	})
}

// Where the lock of another migration is not released in time, no statement runs beside it.
func TestMigrateWithoutTheLock(t *testing.T) {
	t.Parallel()
	over(t, ofMySQL, func(t *testing.T, s setUp) {
		db := s.connect(t, s.dsn(t))
		other, err := db.Conn(t.Context())
		must(t, err)
		defer other.Close()
		do := func(text string) {
			t.Helper()
			_, err := other.ExecContext(t.Context(), text)
			must(t, err)
		}
		const lock = "LOCK(sha2(concat_ws(' in ', 'oncekey migrations of oncekey_records', database()), 224)"
		do("DO GET_" + lock + ", 0)")
		fails(t, "Migrate", sqlstore.Migrate(t.Context(), db, sqlstore.WithoutPatience()), nil, "another migration has had the lock")
		counts(t, db, 0, `SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name LIKE 'oncekey%'`)
		do("DO RELEASE_" + lock + ")")
		must(t, sqlstore.Migrate(t.Context(), db, s.dialect))
	})
}

func TestMigrateSaysWhatFailed(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		db := s.connect(t, s.dsn(t))
		_, err := sqlstore.New(db, s.dialect).Sweep(t.Context(), 3)
		fails(t, "Sweep", err, nil, "run sqlstore.Migrate first")
		execute(t, db, `CREATE TABLE oncekey_records_migrations (other int)`)
		for name, dialect := range map[string]sqlstore.Dialect{
			"PostgreSQL": sqlstore.PostgreSQL(), "MySQL": sqlstore.MySQL(), "SQLite": sqlstore.SQLite(), // all but one are wrong
		} {
			fails(t, "Migrate", sqlstore.Migrate(t.Context(), db, dialect), nil, "sqlstore: migrate by the dialect "+name+": ")
		}
		testkit.Equal(t, db.Stats().InUse, 0, "connections that are in use")
	})
}

// Migrations that a deployment may have run must not change.
func TestPublishedTablesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	published := map[string][]string{
		"PostgreSQL": {"f1e7bda572e367f55ac2562ccef2689b32832937a09f92c6a21549307214c6b2"},
		"MySQL":      {"cba8b48d87675500668764e2cc5894d1df01eecb71d486f77485e6d797b06296"},
		"SQLite":     {"4c4960ae88bea0825085f1ecd67b81c95b06aa5510dfa94703d4e38d635a100c"},
	}
	for _, s := range []setUp{postgresql, mysqlServer, sqliteWAL} {
		for i, migration := range sqlstore.Migrations(s.dialect) {
			if i >= len(published[s.name]) {
				t.Fatalf("version %d of %s is not noted here", migration.Version, s.name)
			}
			if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(migration.SQL))); sum != published[s.name][i] {
				t.Errorf("version %d of %s was changed: add another one instead (its sum is %s)", migration.Version, s.name, sum)
			}
		}
	}
}
