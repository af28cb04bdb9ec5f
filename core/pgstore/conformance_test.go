package pgstore_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

const tooLarge = 2<<20 + 1

// named returns a store on a table of its own, which is as good as an empty server.
func named(t testing.TB, pool *pgxpool.Pool, name string) *pgstore.Store {
	t.Helper()
	table := pgstore.Table(name)
	if err := pgstore.Migrate(t.Context(), pool, table); err != nil {
		t.Fatal(err)
	}
	return pgstore.New(pool, table)
}

// With batches forced on, forced off, and as they come.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*pgstore.Store) *pgstore.Store{
		"batches": (*pgstore.Store).AlwaysBatch, "alone": (*pgstore.Store).NeverBatch, "mixed": func(s *pgstore.Store) *pgstore.Store { return s },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := connect(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.MaxConns = 20 })
			var cases atomic.Int32
			storetest.Run(t, storetest.Config{
				New: func(t testing.TB) storage.Store {
					table := fmt.Sprintf("case_%d", cases.Add(1))
					store := open(named(t, pool, table))
					if _, err := pool.Exec(t.Context(), fmt.Sprintf(`ALTER TABLE %[1]s ADD CHECK (length(body) < %[2]d AND length(steps) < %[2]d)`, table, tooLarge)); err != nil {
						t.Fatal(err)
					}
					return store
				},
				Unit:     400 * time.Millisecond,
				TooLarge: tooLarge,
			})
		})
	}
}

// Pools in front of a pooler are set to other ways of sending arguments.
func TestQueryModes(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn, nil)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for name, open := range map[string]func(*pgxpool.Pool) *pgstore.Store{
			"alone":      func(pool *pgxpool.Pool) *pgstore.Store { return pgstore.New(pool) },
			"in batches": func(pool *pgxpool.Pool) *pgstore.Store { return pgstore.New(pool).AlwaysBatch() },
		} {
			t.Run(mode.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				pool := connect(t, dsn, func(config *pgxpool.Config) {
					config.ConnConfig.DefaultQueryExecMode = mode
					config.ConnConfig.RuntimeParams["datestyle"] = "German"
				})
				store, key := open(pool), mode.String()+" "+name
				lease := win(t, store, digested(claim(key), key))
				lease.Steps = "ü'\\"
				must(t, store.Extend(t.Context(), lease, time.Minute))
				abandon(t, pool, key)
				second := win(t, store, digested(takeOver(key), key))
				if running := find(t, store, claim(key)); second.Steps != lease.Steps || running.Steps != lease.Steps {
					t.Errorf("the lease is %+v and the record %+v, want the steps of the first attempt", second, running)
				}
				must(t, store.Release(t.Context(), second))
				third := win(t, store, originated(digested(claim(key), key)))
				res := result("\x00\xff'\\")
				res.Header = storage.Header{{Name: "A", Value: "'\x00\xff"}, {Op: storage.Delete, Name: `B"\`}}
				res.Sketch = []byte("\xff'\\\x00")
				must(t, store.Complete(t.Context(), third, res))
				r := find(t, store, claim(key))
				if since := time.Since(r.Created); r.Origin != third.Origin || since < -time.Minute || since > time.Minute {
					t.Errorf("the record is %+v, want it claimed a moment ago by %+v", r, third.Origin)
				}
				if third.Attempt != 3 || !bytes.Equal(r.Body, res.Body) || !slices.Equal(r.Header, res.Header) || !bytes.Equal(r.Sketch, res.Sketch) {
					t.Errorf("the record is %+v, want attempt 3 and %+v", r, res)
				}
				if page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1000}); err != nil || len(page.Entries) == 0 {
					t.Errorf("List returned %d records and %v", len(page.Entries), err)
				}
				if _, err := store.Sweep(t.Context(), 10); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
