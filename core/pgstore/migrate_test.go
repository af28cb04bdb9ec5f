package pgstore_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/postgrestest"
	"github.com/oncekey/oncekey/core/pgstore"
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
	if steps := ask[int](t, pool, `SELECT count(*) FROM oncekey.migrations`); steps != len(pgstore.Migrations()) {
		t.Errorf("%d steps were noted, want %d", steps, len(pgstore.Migrations()))
	}
	finish(t, pgstore.New(pool), "key")
	must(t, pgstore.Migrate(t.Context(), pool))
	if r := find(t, pgstore.New(pool), claim("key")); string(r.Body) != "key" {
		t.Errorf("after one more migration the record is %+v, want the answer", r)
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

// Whoever prepared the schema need not let others make schemas.
func TestSchemaThatIsThereTakesNoRightToCreateOne(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	admin := connect(t, dsn, nil)
	database := ask[string](t, admin, `SELECT current_database()`) // roles are the whole server's
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
	var refusal *pgconn.PgError
	err := pgstore.Migrate(t.Context(), service)
	if !errors.As(err, &refusal) || refusal.Code != "42501" {
		t.Errorf("Migrate without the right to read returned %v, want insufficient_privilege", err)
	}
}

// Case 20, for tables.
func TestTablesOfNewerVersionAreRefused(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	execute(t, pool, `INSERT INTO oncekey.migrations (version) VALUES (1000)`)
	err := pgstore.Migrate(t.Context(), pool)
	if err == nil || !strings.Contains(err.Error(), "version 1000") || !strings.Contains(err.Error(), "update the program") {
		t.Errorf("Migrate returned %v, want it to say who is too old", err)
	}
}

func TestFailedMigrationChangesNothing(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	broken := append(pgstore.Migrations(), pgstore.Migration{Version: 2, Name: "broken", SQL: "CREATE TABLE oncekey.more (); SELECT 1/0"})
	err := pgstore.New(pool).MigrateTo(t.Context(), broken)
	if err == nil || !strings.Contains(err.Error(), "version 2 (broken)") {
		t.Errorf("it returned %v, want which step failed", err)
	}
	if ask[bool](t, pool, `SELECT to_regnamespace('oncekey') IS NOT NULL`) {
		t.Error("there is a schema, want nothing")
	}
}
