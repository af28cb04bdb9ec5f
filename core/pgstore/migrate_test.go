package pgstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// Ten pods start at once. Their sessions would keep a snapshot that is taken before the wait.
func TestConcurrentMigrations(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t)+"&default_transaction_isolation=serializable")
	concurrently(10, func(int) {
		if err := pgstore.Migrate(t.Context(), pool); err != nil {
			t.Error(err)
		}
	})
	counts(t, pool, len(pgstore.Migrations()), `SELECT count(*) FROM oncekey_records_migrations`)
	finish(t, pgstore.New(pool), "key")
	must(t, pgstore.Migrate(t.Context(), pool))
	replays(t, pgstore.New(pool), claim("key"), "key")
}

// A statement that waits for a lock on the table holds up all that come after it.
func TestMigrationDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	execute(t, pool, `DELETE FROM oncekey_records_migrations`)
	backup := holding(t, pool, `LOCK TABLE oncekey_records IN ACCESS EXCLUSIVE MODE`)
	const lockNotAvailable = "55P03"
	fails(t, "Migrate", limited(t, 20*time.Second, func(ctx context.Context) error { return pgstore.Migrate(ctx, pool) }), nil, lockNotAvailable)
	must(t, backup.Rollback(t.Context()))
	must(t, pgstore.Migrate(t.Context(), pool))
}

// A made-up next version beside this one: its tables have more, and some of its rows have a
// version that this program must refuse. They stay until they expire.
func TestNextVersion(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"batches", "alone"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			_, pool := open(t)
			var swept atomic.Int64
			var log strings.Builder
			store := pgstore.New(pool, ways[way], pgstore.CountSwept(&swept), pgstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
			finish(t, store, "old")
			execute(t, pool, `ALTER TABLE oncekey_records ADD COLUMN later text; INSERT INTO oncekey_records_migrations VALUES (1000)`)
			must(t, pgstore.Migrate(t.Context(), pool))
			must(t, store.Check(t.Context()))
			finish(t, store, "new")
			replays(t, store, claim("old"), "old")
			replays(t, store, claim("new"), "new")
			execute(t, pool, `UPDATE oncekey_records SET version = 2 WHERE record_key = 'new'`)
			fails(t, "Acquire", acquire(t.Context(), store, takeOver("new")).err, storage.ErrCorruptRecord, "version is 2, want 1")
			list, err := store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 10})
			if err != nil || len(list.Entries) != 1 || list.Entries[0].Key != "old" || !strings.Contains(log.String(), "version is 2, want 1") {
				t.Errorf("List returned %+v and %v, want the other record, and logged %q, want why it skipped one", list, err, &log)
			}
			lease := win(t, store, remembered(takeOver("next")))
			execute(t, pool, `UPDATE oncekey_records SET version = 2, later = 'later' WHERE record_key = 'next'`)
			age(t, pool, "next", leaseEnded)
			fails(t, "Extend", store.Extend(t.Context(), lease, time.Minute), storage.ErrLeaseLost)
			fails(t, "Release", store.Release(t.Context(), lease), storage.ErrLeaseLost)
			fails(t, "Complete", store.Complete(t.Context(), lease, result("late")), storage.ErrLeaseLost)
			age(t, pool, "next", retainEnded)
			const row = `SELECT (r.*, r.ctid)::text FROM oncekey_records AS r WHERE record_key = 'next'`
			before := queryOne[string](t, pool, row)
			_, looked := store.Lookup(t.Context(), "next")
			fails(t, "Acquire", acquire(t.Context(), store, takeOver("next")).err, storage.ErrCorruptRecord, "version is 2, want 1")
			fails(t, "Lookup", looked, storage.ErrCorruptRecord, "version is 2, want 1")
			removed, err := store.Sweep(t.Context(), 10)
			if after := queryOne[string](t, pool, row); removed != 0 || err != nil || after != before {
				t.Errorf("Sweep returned %d and %v, and the row is %s, want it as it was: %s", removed, err, after, before)
			}
			age(t, pool, "next", expired)
			if removed, err := store.Sweep(t.Context(), 10); removed != 1 || err != nil || swept.Load() != 1 {
				t.Errorf("after its end Sweep returned %d and %v and counted %d, want 1", removed, err, swept.Load())
			}
		})
	}
}

// A tool of the program's own runs the steps, in a schema, and Migrate after it. Case 97: a
// table that is not the migrations' is refused, and named. The cases of package sqlstore have
// each fault.
func TestTableIsProven(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t))
	table := pgstore.Table("Shop.Records")
	fails(t, "without its schema Migrate", pgstore.Migrate(t.Context(), pool, table), nil, "migrate: create the schema of Shop.Records first: ")
	execute(t, pool, `CREATE SCHEMA shop`)
	for _, step := range pgstore.Migrations(table) {
		execute(t, pool, strings.Replace(step.SQL, " PRIMARY KEY", "", 1))
	}
	store := pgstore.New(pool, table)
	for call, err := range map[string]error{
		"Acquire": acquire(t.Context(), store, claim("key")).err, "Check": store.Check(t.Context()),
		"Migrate": pgstore.Migrate(t.Context(), pool, table),
	} {
		fails(t, call, err, storage.ErrNotStorable, "column record_key")
	}
	execute(t, pool, `ALTER TABLE shop.records ADD PRIMARY KEY (record_key)`)
	must(t, pgstore.Migrate(t.Context(), pool, table))
	win(t, store, claim("key"))
	counts(t, pool, len(pgstore.Migrations()), `SELECT count(*) FROM shop.records_migrations`)
}

// inSchema is the table of docs/sql.md.
var inSchema = pgstore.Table("oncekey.records")

// roles are a database with the roles of docs/sql.md.
type roles struct {
	admin                  *pgxpool.Pool
	suffix, service, owner string
}

func newRoles(t *testing.T) roles {
	t.Helper()
	r := roles{admin: connect(t, postgrestest.Shared(t))}
	r.suffix = queryOne[string](t, r.admin, `SELECT '_' || current_database()`)
	r.service, r.owner = "shop"+r.suffix, "shop_owner"+r.suffix
	execute(t, r.admin, `CREATE ROLE `+r.service+`; CREATE ROLE `+r.owner)
	return r
}

// as returns a pool whose sessions have the role.
func (r roles) as(t *testing.T, role string) *pgxpool.Pool {
	t.Helper()
	return connect(t, r.admin.Config().ConnString()+"&role="+role)
}

// granted has tables, and the rights of docs/sql.md for the service.
func granted(t *testing.T) roles {
	t.Helper()
	r := newRoles(t)
	execute(t, r.admin, documented(t, "schema of an owner", r.suffix))
	must(t, pgstore.Migrate(t.Context(), r.as(t, r.owner), inSchema))
	execute(t, r.admin, documented(t, "grants", r.suffix))
	return r
}

// Case 44: a role with the documented rights and no others migrates and serves.
func TestDocumentedGrants(t *testing.T) {
	t.Parallel()
	one := newRoles(t)
	execute(t, one.admin, documented(t, "schema of the service", one.suffix))
	for _, r := range []roles{one, granted(t)} { // one role, and an owner with a service
		pool := r.as(t, r.service)
		must(t, pgstore.Migrate(t.Context(), pool, inSchema))
		must(t, pgstore.Migrate(t.Context(), pool, inSchema)) // at each start
		store := pgstore.New(pool, inSchema)
		must(t, store.Check(t.Context()))
		must(t, store.Release(t.Context(), win(t, store, claim("released"))))
		goThroughLife(t, store, "key")
	}
}

// Case 44: Migrate names the schema or the table that the role has no right to.
func TestMigrateNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	r := newRoles(t)
	pool := r.as(t, r.service)
	names := func(want string) {
		t.Helper()
		fails(t, "Migrate", pgstore.Migrate(t.Context(), pool, inSchema), storage.ErrStoreForbidden, want)
	}
	execute(t, r.admin, documented(t, "schema of an owner", r.suffix))
	names("schema oncekey")
	execute(t, r.admin, `GRANT USAGE ON SCHEMA oncekey TO `+r.service)
	names("schema oncekey")
	must(t, pgstore.Migrate(t.Context(), r.as(t, r.owner), inSchema))
	execute(t, r.admin, `GRANT CREATE ON SCHEMA oncekey TO `+r.service)
	names("table records_migrations")
	execute(t, r.admin, documented(t, "grants", r.suffix)+`; REVOKE CREATE ON SCHEMA oncekey FROM `+r.service)
	must(t, pgstore.Migrate(t.Context(), pool, inSchema))
}

// Case 38: policies that let a role claim and not settle leave no right to grant.
func TestRowLevelSecurity(t *testing.T) {
	t.Parallel()
	r := granted(t)
	execute(t, r.admin, `ALTER TABLE oncekey.records ENABLE ROW LEVEL SECURITY;
		CREATE POLICY reads ON oncekey.records FOR SELECT USING (true); CREATE POLICY adds ON oncekey.records FOR INSERT WITH CHECK (true)`)
	store := pgstore.New(r.as(t, r.service), inSchema)
	const remedy = "ALTER TABLE oncekey.records DISABLE ROW LEVEL SECURITY"
	fails(t, "Acquire", acquire(t.Context(), store, claim("key")).err, storage.ErrNotStorable, remedy)
	fails(t, "Check", store.Check(t.Context()), storage.ErrNotStorable, remedy)
	finish(t, pgstore.New(r.as(t, r.owner), inSchema), "owned") // a table's owner is above its policies
	execute(t, r.admin, remedy)
	finish(t, store, "key")
}

// Case 38: with a unique index in place of its primary key a table has no replica identity, so a publication lets the
// store claim and not settle. One that begins to publish later is noticed by the first settlement.
func TestPublishedTableWithoutAReplicaIdentity(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	const cause = "a publication does not cover the table's replica identity"
	execute(t, pool, `CREATE UNIQUE INDEX one ON oncekey_records (record_key); ALTER TABLE oncekey_records DROP CONSTRAINT oncekey_records_pkey`)
	lease := win(t, store, claim("running"))
	execute(t, pool, `CREATE PUBLICATION changes FOR ALL TABLES`)
	fails(t, "Complete", store.Complete(t.Context(), lease, result("response")), nil, "replica identity")
	for _, store := range []*pgstore.Store{store, pgstore.New(pool)} {
		fails(t, "Acquire", acquire(t.Context(), store, claim("key")).err, storage.ErrNotStorable, cause)
		fails(t, "Check", store.Check(t.Context()), storage.ErrNotStorable, cause)
	}
	execute(t, pool, `ALTER TABLE oncekey_records REPLICA IDENTITY USING INDEX one`)
	must(t, store.Complete(t.Context(), lease, result("response")))
	finish(t, store, "key")
}

// Case 38: a missing right is found before the first claim, and named. The GRANT of
// the error helps without a restart. A right that is revoked later is permanent from then on,
// and the next claim names it.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	for _, right := range []string{
		"USAGE ON SCHEMA oncekey", "SELECT ON oncekey.records", "INSERT ON oncekey.records", "UPDATE ON oncekey.records",
		"DELETE ON oncekey.records", "UPDATE, DELETE ON oncekey.records",
	} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			r := granted(t)
			revoke := `REVOKE ` + right + ` FROM ` + r.service
			execute(t, r.admin, revoke)
			store := pgstore.New(r.as(t, r.service), inSchema)
			grant := fmt.Sprintf("GRANT %s TO %q", right, r.service)
			fails(t, "Acquire", acquire(t.Context(), store, claim("key")).err, storage.ErrStoreForbidden, ": "+grant)
			fails(t, "Check", store.Check(t.Context()), storage.ErrStoreForbidden, ": "+grant)
			counts(t, r.admin, 0, `SELECT count(*) FROM oncekey.records`)
			execute(t, r.admin, grant)
			finish(t, store, "key")
			if !strings.HasPrefix(right, "UPDATE") {
				return
			}
			lease := win(t, store, claim("later"))
			execute(t, r.admin, revoke)
			fails(t, "Complete", store.Complete(t.Context(), lease, result("response")), storage.ErrStoreForbidden)
			fails(t, "the next Acquire", acquire(t.Context(), store, claim("other")).err, storage.ErrStoreForbidden, ": "+grant)
			execute(t, r.admin, grant)
			must(t, store.Complete(t.Context(), lease, result("response")))
		})
	}
}
