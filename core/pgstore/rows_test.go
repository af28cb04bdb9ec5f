package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// The table of package sqlstore, with batches forced on, and off.
func TestConformanceOfRows(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{true, false} {
		t.Run(fmt.Sprintf("in batches %t", always), func(t *testing.T) {
			t.Parallel()
			pool := connect(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.MaxConns = 20 })
			var cases atomic.Int32
			storetest.Run(t, storetest.Config{
				New: func(t testing.TB) storage.Store {
					table := fmt.Sprintf("case_%d", cases.Add(1))
					store := pgstore.NewRows(t.Context(), t, pgstore.New(pool), table, always)
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

func TestQueryModesOfRows(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for _, always := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s in batches %t", mode, always), func(t *testing.T) {
				t.Parallel()
				pool := connect(t, dsn, func(config *pgxpool.Config) {
					config.ConnConfig.DefaultQueryExecMode = mode
					config.ConnConfig.RuntimeParams["datestyle"] = "German"
				})
				throughLife(t, pgstore.NewRows(t.Context(), t, pgstore.New(pool), fmt.Sprintf("mode_%d_%t", mode, always), always))
			})
		}
	}
}

// throughLife makes the calls of a store, with bytes that a wrong encoding would change.
func throughLife(t *testing.T, store pgstore.Rows) {
	t.Helper()
	lease := win(t, store, digested(claim("key"), "key"))
	lease.Steps = "ü'\\"
	must(t, store.Extend(t.Context(), lease, time.Minute))
	must(t, store.Extend(t.Context(), lease, 0))
	second := win(t, store, digested(takeOver("key"), "key"))
	if second.Steps != lease.Steps || second.Attempt != 2 || !second.TookOver {
		t.Errorf("the lease is %+v, want the second attempt with the steps of the first", second)
	}
	second.Steps = ""
	must(t, store.Release(t.Context(), second))
	third := win(t, store, originated(claim("key")))
	res := result("\x00\xff'\\")
	res.Header = storage.Header{{Name: "A", Value: "'\x00\xff"}, {Op: storage.Delete, Name: `B"\`}}
	res.Sketch = []byte("\xff'\\\x00")
	must(t, store.Complete(t.Context(), third, res))
	must(t, store.Complete(t.Context(), third, res))
	r := find(t, store, claim("key"))
	if since := time.Since(r.Created); r.Origin != third.Origin || since < -time.Minute || since > time.Minute {
		t.Errorf("the record is %+v, want it claimed a moment ago by %+v", r, third.Origin)
	}
	if third.Attempt != 3 || !bytes.Equal(r.Body, res.Body) || !slices.Equal(r.Header, res.Header) || !bytes.Equal(r.Sketch, res.Sketch) {
		t.Errorf("the record is %+v, want attempt 3 and %+v", r, res)
	}
	if page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10}); err != nil || len(page.Entries) != 1 {
		t.Errorf("List returned %d records and %v, want 1", len(page.Entries), err)
	}
	if there, err := store.Forget(t.Context(), "key", storage.RerunIsSafe); err != nil || !there {
		t.Errorf("Forget returned %t and %v, want true", there, err)
	}
}

// A pool that prepares its statements, and one that does not, before pgbouncer in transaction mode.
func TestTransactionModeOfRows(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pool := connect(t, bouncer(t, postgrestest.Shared(t))+"&default_query_exec_mode="+mode, nil)
			must(t, pgstore.Migrate(t.Context(), pool))
			store := pgstore.New(pool)
			must(t, store.Check(t.Context())) // finds the pooler
			rows := pgstore.NewRows(t.Context(), t, store, "shared_rows", true)
			const callers, rounds = 8, 10
			var running sync.WaitGroup
			for caller := range callers {
				running.Go(func() {
					for round := range rounds {
						key := fmt.Sprint(caller, "-", round)
						for name, err := range map[string]error{"serve": servedThrough(t.Context(), rows, key), "inspect": inspectedThrough(t.Context(), rows, key)} {
							if err != nil {
								t.Errorf("%s %s: %v", name, key, err)
								return
							}
						}
					}
				})
			}
			running.Wait()
		})
	}
}

// One value that no text takes, among many, costs its own call only. So does a locked row.
func TestOneBadRowOfManyRows(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	rows := pgstore.NewRows(t.Context(), t, pgstore.New(pool), "bad_rows", true)
	const callers = 64
	var running sync.WaitGroup
	for n := range callers {
		running.Go(func() {
			c := claim(fmt.Sprint("key ", n))
			if n == 0 {
				c.Key = "\xff"
			}
			_, _, err := rows.Acquire(t.Context(), c)
			if (err != nil) != (n == 0) {
				t.Errorf("claim %d returned %v", n, err)
			}
		})
	}
	running.Wait()
	tx, err := pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	finish(t, rows, "held")
	_, err = tx.Exec(t.Context(), `SELECT FROM bad_rows FOR UPDATE`)
	must(t, err)
	for n := range callers {
		running.Go(func() {
			if n > 0 {
				finish(t, rows, fmt.Sprint("other ", n))
				return
			}
			if r := find(t, rows, claim("held")); r.State != storage.Completed {
				t.Errorf("found %+v, want the response", r)
			}
		})
	}
	running.Wait()
}

func TestTransactorOfRows(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.MaxConns = 20 })
	execute(t, pool, `CREATE TABLE written (id text)`)
	var cases atomic.Int32
	storetest.RunTransactor(t, storetest.TransactorConfig{
		New: func(t testing.TB) (storage.Transactor, storetest.Table) {
			n := cases.Add(1)
			return pgstore.NewRows(t.Context(), t, pgstore.New(pool), fmt.Sprint("transactor_", n), false), table(pool, n)
		},
		Unit: 400 * time.Millisecond,
	})
}

// Case 96 over the rows: the record is not written outside of the store's transaction.
func TestHandlerEndsItsTransactionOfRows(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	rows := pgstore.NewRows(t.Context(), t, pgstore.New(pool), "ended_rows", false)
	for n, statement := range []string{`ROLLBACK`, `COMMIT`, `COMMIT AND CHAIN`, `ROLLBACK; BEGIN`} {
		for _, lost := range []bool{false, true} {
			lease := win(t, rows, claim(fmt.Sprint(n, " ", lost)))
			handler, transaction, err := rows.BeginTransaction(t.Context(), lease)
			must(t, err)
			tx, err := pgstore.Tx(handler)
			must(t, err)
			_, err = tx.Exec(handler, statement, pgx.QueryExecModeSimpleProtocol)
			must(t, err)
			if lost {
				execute(t, pool, `DELETE FROM ended_rows WHERE record_key = $1`, lease.Key)
			}
			if err := transaction.Commit(handler, lease, result("paid")); !errors.Is(err, storage.ErrTransactionEnded) {
				t.Errorf("after %q Commit returned %v, want ErrTransactionEnded", statement, err)
			}
			r, err := rows.Lookup(t.Context(), lease.Key)
			must(t, err)
			if (r == nil) != lost || r != nil && r.State != storage.InProgress {
				t.Errorf("after %q the record is %+v, want it as it was", statement, r)
			}
		}
	}
}

func TestReplicaOfRows(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	finish(t, pgstore.NewRows(t.Context(), t, pgstore.New(connect(t, server.DSN(), nil)), "rows", false), "finished")
	replica := connect(t, server.Standby().DSN(), nil)
	for _, always := range []bool{true, false} {
		rows := pgstore.OpenRows(pgstore.New(replica), "rows", always)
		for range 2 { // unseen, and seen
			if r := find(t, rows, claim("finished")); string(r.Body) != "finished" {
				t.Errorf("the record is %+v, want the response", r)
			}
		}
		if lease, record, err := rows.Acquire(t.Context(), claim("new")); err == nil || record != nil {
			t.Errorf("Acquire returned %+v, %+v and %v, want an error", lease, record, err)
		}
	}
}

// Two processes with the same keys in opposite order, and a handler that holds a row of each batch.
func TestTwoStoresOfRows(t *testing.T) {
	t.Parallel()
	const keys = 200
	dsn := postgrestest.Shared(t)
	pool := connect(t, dsn, nil)
	stores := [2]pgstore.Rows{
		pgstore.NewRows(t.Context(), t, pgstore.New(pool), "two_stores", false),
		pgstore.OpenRows(pgstore.New(connect(t, dsn, nil)), "two_stores", false),
	}
	for round := range 3 {
		var wins [keys]atomic.Int32
		var running sync.WaitGroup
		for side, store := range stores {
			for n := range keys {
				if side == 1 {
					n = keys - 1 - n
				}
				running.Go(func() {
					lease, found, err := store.Acquire(t.Context(), claim(fmt.Sprint(round, " ", n)))
					if err == nil && found == nil {
						wins[n].Add(1)
						err = store.Complete(t.Context(), lease, result("response"))
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		running.Wait()
		for n := range wins {
			if won := wins[n].Load(); won != 1 {
				t.Errorf("key %d was won %d times, want once", n, won)
			}
		}
	}
	if deadlocks := queryOne[int](t, pool, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); deadlocks != 0 {
		t.Errorf("there were %d deadlocks", deadlocks)
	}
}
