package pgstore_test

import (
	"context"
	"errors"
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
	if steps := queryOne[int](t, pool, `SELECT count(*) FROM oncekey_records_migrations`); steps != len(pgstore.Migrations()) {
		t.Errorf("%d steps were noted, want %d", steps, len(pgstore.Migrations()))
	}
	finish(t, pgstore.New(pool), "key")
	must(t, pgstore.Migrate(t.Context(), pool))
	if r := find(t, pgstore.New(pool), claim("key")); string(r.Body) != "key" {
		t.Errorf("after one more migration the record is %+v, want the response", r)
	}
}

// A tool of the program's own runs the steps, in a schema, and Migrate after it.
func TestMigrationsRunByHand(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	table := pgstore.Table("Shop.Records")
	if err := pgstore.Migrate(t.Context(), pool, table); err == nil || !strings.Contains(err.Error(), "shop") {
		t.Errorf("without its schema Migrate returned %v, want its name", err)
	}
	execute(t, pool, `CREATE SCHEMA shop`)
	for _, migration := range pgstore.Migrations(table) {
		execute(t, pool, migration.SQL)
	}
	must(t, pgstore.Migrate(t.Context(), pool, table))
	store := pgstore.New(pool, table)
	must(t, store.Check(t.Context()))
	finish(t, store, "key")
	if steps := queryOne[int](t, pool, `SELECT count(*) FROM shop.records_migrations`); steps != len(pgstore.Migrations()) {
		t.Errorf("%d steps were noted, want %d", steps, len(pgstore.Migrations()))
	}
}

// A statement that waits for a lock on the table holds up all that come after it.
func TestMigrationDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	pool := migrated(t, postgrestest.Shared(t), nil)
	execute(t, pool, `DELETE FROM oncekey_records_migrations`)
	backup, err := pool.Begin(t.Context())
	must(t, err)
	_, err = backup.Exec(t.Context(), `LOCK TABLE oncekey_records IN ACCESS EXCLUSIVE MODE`)
	must(t, err)
	var refusal *pgconn.PgError
	limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := pgstore.Migrate(limited, pool); !errors.As(err, &refusal) || refusal.Code != "55P03" {
		t.Errorf("Migrate returned %v, want lock_not_available", err)
	}
	must(t, backup.Rollback(t.Context()))
	must(t, pgstore.Migrate(t.Context(), pool))
}

// A made-up next version beside this one: its tables have more, and some of its rows have a
// version that this program must refuse. They stay until they expire.
func TestNextVersion(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(*pgstore.Store) *pgstore.Store{"batches": (*pgstore.Store).AlwaysBatch, "alone": (*pgstore.Store).NeverBatch} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, pool := open(t)
			store := store(ours)
			finish(t, store, "old")
			execute(t, pool, `ALTER TABLE oncekey_records ADD COLUMN later text; INSERT INTO oncekey_records_migrations VALUES (1000)`)
			must(t, pgstore.Migrate(t.Context(), pool))
			must(t, store.Check(t.Context()))
			finish(t, store, "new")
			for _, key := range []string{"old", "new"} { // a program of the next version reads the rows of this one
				if r := find(t, store, claim(key)); string(r.Body) != key {
					t.Errorf("the record is %+v, want the response %q", r, key)
				}
			}
			execute(t, pool, `UPDATE oncekey_records SET version = 2 WHERE record_key = 'new'`)
			if _, _, err := store.Acquire(t.Context(), takeOver("new")); !errors.Is(err, storage.ErrCorruptRecord) {
				t.Errorf("Acquire returned %v, want ErrCorruptRecord", err)
			}
			lease := win(t, store, remembered(takeOver("next")))
			execute(t, pool, `UPDATE oncekey_records SET version = 2, later = 'later' WHERE record_key = 'next'`)
			abandon(t, pool, "next")
			endRetain(t, pool, "next")
			row := func() string {
				return queryOne[string](t, pool, `SELECT (r.*, r.ctid)::text FROM oncekey_records AS r WHERE record_key = 'next'`)
			}
			before := row()
			_, _, claimed := store.Acquire(t.Context(), takeOver("next"))
			_, looked := store.Lookup(t.Context(), "next")
			for call, err := range map[string]error{"Acquire": claimed, "Lookup": looked} {
				if !errors.Is(err, storage.ErrCorruptRecord) || !strings.Contains(err.Error(), "version is 2, want 1") {
					t.Errorf("%s returned %v, want ErrCorruptRecord with both versions", call, err)
				}
			}
			for call, err := range map[string]error{
				"Extend": store.Extend(t.Context(), lease, time.Minute), "Release": store.Release(t.Context(), lease),
				"Complete": store.Complete(t.Context(), lease, result("late")),
			} {
				if !errors.Is(err, storage.ErrLeaseLost) {
					t.Errorf("%s returned %v, want ErrLeaseLost", call, err)
				}
			}
			if removed, err := store.Sweep(t.Context(), 10); removed != 0 || err != nil || row() != before {
				t.Errorf("Sweep returned %d and %v, and the row is %s, want it as it was: %s", removed, err, row(), before)
			}
			expire(t, pool, "next")
			if removed, err := store.Sweep(t.Context(), 10); removed != 1 || err != nil {
				t.Errorf("after its end Sweep returned %d and %v, want 1", removed, err)
			}
		})
	}
}

// Case 97: a table that is not the migrations' is refused, and named. The cases of package
// sqlstore have each fault.
func TestTableIsProven(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	for _, step := range pgstore.Migrations() {
		execute(t, pool, strings.Replace(step.SQL, " PRIMARY KEY", "", 1))
	}
	store := pgstore.New(pool)
	_, _, claimed := store.Acquire(t.Context(), claim("key"))
	for call, err := range map[string]error{"Acquire": claimed, "Check": store.Check(t.Context()), "Migrate": pgstore.Migrate(t.Context(), pool)} {
		if !errors.Is(err, storage.ErrNotStorable) || !strings.Contains(err.Error(), "column record_key") {
			t.Errorf("%s returned %v, want ErrNotStorable with the column", call, err)
		}
	}
	execute(t, pool, `ALTER TABLE oncekey_records ADD PRIMARY KEY (record_key)`)
	win(t, store, claim("key"))
}
