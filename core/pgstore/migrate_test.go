package pgstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// Ten pods start at once.
func TestConcurrentMigrations(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	var pods sync.WaitGroup
	for range 10 {
		pool := connect(t, dsn, func(config *pgxpool.Config) {
			// Where a snapshot that is taken before the wait would be kept after it.
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		})
		pods.Go(func() {
			if err := pgstore.Migrate(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	pods.Wait()
	pool := connect(t, dsn, nil)
	if steps := queryOne[int](t, pool, `SELECT count(*) FROM oncekey.migrations`); steps != len(pgstore.Migrations()) {
		t.Errorf("%d steps were noted, want %d", steps, len(pgstore.Migrations()))
	}
	finish(t, pgstore.New(pool), "key")
	must(t, pgstore.Migrate(t.Context(), pool))
	if r := find(t, pgstore.New(pool), claim("key")); string(r.Body) != "key" {
		t.Errorf("after one more migration the record is %+v, want the response", r)
	}
}

func TestMigrationsRunByHand(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	schema := pgstore.Schema(`Our "own"`)
	execute(t, pool, `CREATE SCHEMA "Our ""own"""`)
	for _, migration := range pgstore.Migrations(schema) {
		if migration.Name == "" {
			t.Errorf("version %d has no name", migration.Version)
		}
		execute(t, pool, migration.SQL)
	}
	must(t, pgstore.Migrate(t.Context(), pool, schema))
	finish(t, pgstore.New(pool, schema), "key")
}

// A role whose schema exists needs no right to create schemas.
func TestSchemaThatIsThereTakesNoRightToCreateOne(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	admin := connect(t, dsn, nil)
	database := queryOne[string](t, admin, `SELECT current_database()`) // roles are the whole server's
	migrator, user := "migrator_of_"+database, "user_of_"+database
	execute(t, admin, `CREATE ROLE `+migrator+`; CREATE SCHEMA oncekey AUTHORIZATION `+migrator+`; CREATE ROLE `+user)
	as := func(role string) *pgxpool.Pool {
		return connect(t, dsn, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["role"] = role })
	}
	must(t, pgstore.Migrate(t.Context(), as(migrator)))
	execute(t, admin, `GRANT USAGE ON SCHEMA oncekey TO `+user+`;
		GRANT SELECT, INSERT, UPDATE, DELETE ON oncekey.records TO `+user)
	service := as(user)
	store := pgstore.New(service)
	must(t, store.Release(t.Context(), win(t, store, claim("key"))))
	finish(t, store, "key")
	if _, err := store.Sweep(t.Context(), 10); err != nil {
		t.Error(err)
	}
}

// An old program that starts while newer ones are deployed, or after they were.
func TestTablesOfNewerVersionAreLeftAlone(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	execute(t, pool, `INSERT INTO oncekey.migrations (version) VALUES (1000)`)
	execute(t, pool, `ALTER TABLE oncekey.records ADD COLUMN later text`)
	must(t, pgstore.Migrate(t.Context(), pool))
	must(t, store.MigrateTo(t.Context(), pgstore.Migrations()[:1]))
	if steps := queryOne[int](t, pool, `SELECT count(*) FROM oncekey.migrations`); steps != len(pgstore.Migrations())+1 {
		t.Errorf("%d steps are noted, want none more", steps)
	}
	finish(t, store, "key")
	if r := find(t, store, claim("key")); string(r.Body) != "key" {
		t.Errorf("the record is %+v, want the response", r)
	}
}

// A program with older tables returns errors that name the remedy, and changes no
// row.
func TestTablesOlderThanTheProgramSayWhatToDo(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	store := pgstore.New(pool)
	must(t, store.MigrateTo(t.Context(), pgstore.Migrations()[:1]))
	lease := storage.Lease{Claim: claim("key"), Attempt: 1}
	failures := tryAll(t, store, lease, 10*time.Second)
	delete(failures, "Release") // works with the older tables
	delete(failures, "BeginTransaction")
	_, failures["Lookup"] = store.Lookup(t.Context(), "key")
	_, transaction, err := store.BeginTransaction(t.Context(), lease)
	must(t, err)
	failures["Commit"] = transaction.Commit(t.Context(), lease, result("answer"))
	for operation, err := range failures {
		if err == nil || !strings.Contains(err.Error(), `schema "oncekey"`) || !strings.Contains(err.Error(), "run pgstore.Migrate first") {
			t.Errorf("%s returned %v, want the remedy", operation, err)
		}
	}
	if rows := queryOne[int](t, pool, `SELECT count(*) FROM oncekey.records`); rows != 0 {
		t.Errorf("there are %d records, want none", rows)
	}
}

// The statements of docs/postgres.md for a large table: the migration finds the index,
// and builds none.
func TestIndexBuiltByHand(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	store := pgstore.New(pool)
	must(t, store.MigrateTo(t.Context(), pgstore.Migrations()[:4]))
	for statement := range strings.SplitAfterSeq(strings.TrimSpace(documented(t, "index by hand", "")), ";\n") {
		execute(t, pool, statement)
	}
	index := func() uint32 {
		return queryOne[uint32](t, pool, `SELECT indexrelid FROM pg_index WHERE indexrelid = 'oncekey.records_retain_hour'::regclass AND indisvalid`)
	}
	before := index()
	must(t, pgstore.Migrate(t.Context(), pool))
	if after := index(); after != before {
		t.Errorf("the index is %d and was %d, want the one that was built by hand", after, before)
	}
	if indexes := queryOne[int](t, pool, `SELECT count(*) FROM pg_index WHERE indrelid = 'oncekey.records'::regclass`); indexes != 3 {
		t.Errorf("the table has %d indexes, want 3", indexes)
	}
	finishRemembered(t, store, "key")
	bury(t, store, pool, "key")
}

func TestFillfactorOfYourOwnStays(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"": "{fillfactor=25}", "SET (fillfactor = 70)": "{fillfactor=70}", "RESET (fillfactor)": ""} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			schema := pgstore.Schema(`It's "ours"`)
			pool := connect(t, postgrestest.Shared(t), nil)
			must(t, pgstore.New(pool, schema).MigrateTo(t.Context(), pgstore.Migrations(schema)[:5]))
			if set != "" {
				execute(t, pool, `ALTER TABLE "It's ""ours""".records `+set)
			}
			must(t, pgstore.Migrate(t.Context(), pool, schema))
			if got := queryOne[string](t, pool, `SELECT coalesce(reloptions::text, '') FROM pg_class WHERE relname = 'records'`); got != want {
				t.Errorf("the table has %q, want %q", got, want)
			}
			finish(t, pgstore.New(pool, schema), "key")
		})
	}
}

// Migrations that a deployment may have run must not change.
func TestPublishedMigrationsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	published := []string{
		"93940fccc58d085e8f54c5492c8f5927867c8142d660657df5a85a2740872d41",
		"5fb3088519d67c54204f3c95f96cd38f729b406c5b7d3b48ff93dde00abbd050",
		"d84ebcd226632af5188116613001e0851346cad95c5abafa8483b12a099e75fb",
		"f0f19b741704ae3f3d79e827d0224648f81d41b350da47b1bb913d12cb8282cc",
		"fd40d25d2f17c1be682a4be95090039343c0c9371fe948e256e9f2fe8d1b8599",
		"9868281f38ee7730c419264a96859e628f3ccd81fbc96964784f566da8840398",
	}
	for i, migration := range pgstore.Migrations() {
		if i >= len(published) {
			t.Fatalf("version %d is not noted here", migration.Version)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(migration.SQL))); sum != published[i] {
			t.Errorf("version %d (%s) was changed: add another one instead (its sum is %s)", migration.Version, migration.Name, sum)
		}
	}
}

// A statement that waits for a lock on the table holds up all that come after it.
func TestMigrationDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	must(t, pgstore.New(pool).MigrateTo(t.Context(), pgstore.Migrations()[:1]))
	backup, err := pool.Begin(t.Context())
	must(t, err)
	_, err = backup.Exec(t.Context(), `SELECT FROM oncekey.records`)
	must(t, err)
	var refusal *pgconn.PgError
	limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := pgstore.Migrate(limited, pool); !errors.As(err, &refusal) || refusal.Code != "55P03" {
		t.Errorf("Migrate returned %v, want lock_not_available", err)
	}
	must(t, backup.Rollback(t.Context()))
	must(t, pgstore.Migrate(t.Context(), pool))
	finish(t, pgstore.New(pool), "key")
}

func TestFailedMigrationChangesNothing(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	broken := append(pgstore.Migrations(), pgstore.Migration{Version: 1000, Name: "broken", SQL: "CREATE TABLE oncekey.more (); SELECT 1/0"})
	err := pgstore.New(pool).MigrateTo(t.Context(), broken)
	if err == nil || !strings.Contains(err.Error(), "version 1000 (broken)") {
		t.Errorf("it returned %v, want which step failed", err)
	}
	if queryOne[bool](t, pool, `SELECT to_regnamespace('oncekey') IS NOT NULL`) {
		t.Error("there is a schema, want none")
	}
}
