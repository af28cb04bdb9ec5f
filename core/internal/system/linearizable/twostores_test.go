package linearizable

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
)

// program is a program's way to its records: a store with its migrations.
type program struct {
	store   storage.Store
	migrate func(ctx context.Context) error
	byHand  func(ctx context.Context) error // as a migration tool does
}

func overPgx(t *testing.T, dsn string, options ...pgstore.Option) program {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return program{
		store:   pgstore.New(pool, options...),
		migrate: func(ctx context.Context) error { return pgstore.Migrate(ctx, pool, options...) },
		byHand: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS oncekey`)
			for _, m := range pgstore.Migrations(options...) {
				if err == nil {
					_, err = pool.Exec(ctx, m.SQL)
				}
			}
			return err
		},
	}
}

func overDatabaseSQL(t *testing.T, dsn string, options ...sqlstore.Option) program {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return program{
		store:   sqlstore.New(db, sqlstore.PostgreSQL(), options...),
		migrate: func(ctx context.Context) error { return sqlstore.Migrate(ctx, db, sqlstore.PostgreSQL(), options...) },
		byHand: func(ctx context.Context) error {
			var err error
			for _, m := range sqlstore.Migrations(sqlstore.PostgreSQL(), options...) {
				if err == nil {
					_, err = db.ExecContext(ctx, m.SQL)
				}
			}
			return err
		},
	}
}

// works expects a program to migrate, to be ready and to claim a key.
func (p program) works(t *testing.T) {
	t.Helper()
	if err := p.migrate(t.Context()); err != nil {
		t.Errorf("Migrate returned %v", err)
	}
	if err := p.store.(storage.Checker).Check(t.Context()); err != nil {
		t.Errorf("Check returned %v", err)
	}
	claim := storage.Claim{Key: t.Name(), Token: storage.NewToken(), Fingerprint: "f", TTL: time.Minute, Retain: time.Hour}
	if lease, _, err := p.store.Acquire(t.Context(), claim); err != nil || lease.Attempt != 1 {
		t.Errorf("Acquire returned attempt %d and %v, want the lease", lease.Attempt, err)
	}
}

// refuses expects a program to be refused at each step of its start, with both tables named.
func (p program) refuses(t *testing.T) {
	t.Helper()
	claim := storage.Claim{Key: "refused", Token: storage.NewToken(), Fingerprint: "f", TTL: time.Minute, Retain: time.Hour}
	acquire := func(ctx context.Context) error { _, _, err := p.store.Acquire(ctx, claim); return err }
	before := p.migrate(t.Context())
	if err := p.byHand(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Migrate": before, "Migrate after a tool": p.migrate(t.Context()), "Check": p.store.(storage.Checker).Check(t.Context()), "Acquire": acquire(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "oncekey_records") || !strings.Contains(err.Error(), "oncekey.records") {
			t.Errorf("%s returned %v, want an error that names both tables", name, err)
		}
	}
}

// Case 99: the two packages for PostgreSQL share no keys. In one database the second one
// refuses to start, unless the program has named its table or schema.
func TestTwoStoresInOneDatabase(t *testing.T) {
	t.Parallel()
	for name, programs := range map[string]func(t *testing.T, dsn string) (first, second program){
		"pgx first":          func(t *testing.T, dsn string) (program, program) { return overPgx(t, dsn), overDatabaseSQL(t, dsn) },
		"database/sql first": func(t *testing.T, dsn string) (program, program) { return overDatabaseSQL(t, dsn), overPgx(t, dsn) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := programs(t, postgrestest.Shared(t))
			first.works(t)
			second.refuses(t)
		})
	}
	for name, programs := range map[string]func(t *testing.T, dsn string) [2]program{
		"a named table": func(t *testing.T, dsn string) [2]program {
			return [2]program{overPgx(t, dsn), overDatabaseSQL(t, dsn, sqlstore.Table("shop"))}
		},
		"a named schema": func(t *testing.T, dsn string) [2]program {
			return [2]program{overDatabaseSQL(t, dsn), overPgx(t, dsn, pgstore.Schema("shop"))}
		},
		"two databases": func(t *testing.T, dsn string) [2]program {
			return [2]program{overPgx(t, dsn), overDatabaseSQL(t, postgrestest.Shared(t))}
		},
		"each the same": func(t *testing.T, dsn string) [2]program { return [2]program{overPgx(t, dsn), overPgx(t, dsn)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, p := range programs(t, postgrestest.Shared(t)) {
				t.Run([]string{"first", "second"}[i], p.works)
			}
		})
	}
}
