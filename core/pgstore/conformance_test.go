package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/golden"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

const (
	tooLarge = 2<<20 + 1
	unit     = 400 * time.Millisecond
)

// named returns a store on a table of its own, which is as good as an empty server.
func named(t testing.TB, pool *pgxpool.Pool, name string, way pgstore.Option) *pgstore.Store {
	t.Helper()
	table := pgstore.Table(name)
	must(t, pgstore.Migrate(t.Context(), pool, table))
	return pgstore.New(pool, table, way)
}

// ways are the ways of a store to send calls.
var ways = map[string]pgstore.Option{
	"batches": pgstore.AlwaysBatch, "alone": pgstore.WithoutBatches(), "mixed": func(*pgstore.Store) {},
}

// Case 95: a constraint refuses what is too large for good. Where calls go as they come, most go alone, and the tables have two
// of the documented hash partitions.
func TestConformance(t *testing.T) {
	t.Parallel()
	partitions := strings.NewReplacer("0..7", "0..1", "MODULUS 8", "MODULUS 2").Replace(documented(t, "partitions", ""))
	for _, name := range []string{"batches", "mixed"} {
		way := ways[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := connect(t, postgrestest.Shared(t))
			var cases atomic.Int32
			storetest.Run(t, storetest.Config{Unit: unit, TooLarge: tooLarge, New: func(t testing.TB) storage.Store {
				table := fmt.Sprintf("Case_%d", cases.Add(1))
				store := named(t, pool, table, way)
				narrow := fmt.Sprintf(`ALTER TABLE %[1]s ADD CHECK (length(body) < %[2]d AND length(steps) < %[2]d);`, table, tooLarge)
				if name == "mixed" {
					narrow += strings.ReplaceAll(partitions, "oncekey_records", table)
				}
				_, err := pool.Exec(t.Context(), narrow)
				must(t, err)
				return storetest.Processes(store, pgstore.New(pool, pgstore.Table(table), way))
			}})
		})
	}
}

// Each case has a part of the table written.
func TestTransactor(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t))
	execute(t, pool, `CREATE TABLE written (id text)`)
	var cases atomic.Int32
	storetest.RunTransactor(t, storetest.TransactorConfig{Unit: unit, New: func(t testing.TB) (storage.Transactor, storetest.Table) {
		name := fmt.Sprint("transactor_", cases.Add(1))
		return named(t, pool, name, ways["mixed"]), storetest.Table{
			Write: func(handler context.Context, id string) error {
				tx, err := pgstore.Tx(handler)
				if err == nil {
					_, err = tx.Exec(handler, `INSERT INTO written VALUES ($1)`, name+id)
				}
				return err
			},
			Has: func(ctx context.Context, id string) (has bool, err error) {
				err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM written WHERE id = $1)`, name+id).Scan(&has)
				return has, err
			},
		}
	}})
}

// Programs set their pools up in other ways than these tests: other ways of sending
// arguments, as in front of a pooler, and other isolation levels (case 1).
func TestSettingsOfPools(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"default_transaction_isolation=repeatable%20read", "default_transaction_isolation=serializable", "datestyle=German",
		"quote_all_identifiers=on",
		"default_query_exec_mode=cache_describe", "default_query_exec_mode=describe_exec", "default_query_exec_mode=exec",
		"default_query_exec_mode=simple_protocol",
	} {
		for _, way := range []string{"batches", "mixed"} {
			t.Run(setting+" "+way, func(t *testing.T) {
				t.Parallel()
				pool := migrated(t, postgrestest.Shared(t)+"&"+setting, connections(8))
				store := pgstore.New(pool, ways[way])
				goThroughLife(t, store, "key")
				race(t, store, 40, claim, 1)
				age(t, pool, "raced", leaseEnded)
				race(t, store, 40, takeOver, 2)
				age(t, pool, "raced", expired)
				race(t, store, 40, takeOver, 1)
			})
		}
	}
}

// A conversion to the documented hash partitions keeps records, running claims, and the
// statements that connections have prepared.
func TestPartitionsOfATableInUse(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finish(t, store, "finished")
	replays(t, store, claim("finished"), "finished")
	running := win(t, store, claim("running"))
	win(t, store, takeOver("abandoned"))
	options := queryOne[string](t, pool, `SELECT reloptions::text FROM pg_class WHERE oid = 'oncekey_records'::regclass`)
	execute(t, pool, documented(t, "partitions", ""))
	replays(t, store, claim("finished"), "finished")
	must(t, store.Complete(t.Context(), running, result("late")))
	replays(t, store, claim("running"), "late")
	age(t, pool, "abandoned", leaseEnded)
	testkit.Equal(t, win(t, store, takeOver("abandoned")).Attempt, 2, "the abandoned claim was taken over as attempt")
	counts(t, pool, 8, `SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhrelid
WHERE inhparent = 'oncekey_records'::regclass AND reloptions::text = $1`, options)
	counts(t, pool, 1, `SELECT (string_agg(relname, ' ' ORDER BY relname) = 'oncekey_records_pkey1 oncekey_records_sweep_after')::int
FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = 'oncekey_records'::regclass`)
}

// Rows that released versions have written keep their meaning.
func TestGoldenRows(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	golden.Each(t, "rows.jsonl", func(t *testing.T) (all []golden.StoredRow) {
		t.Helper()
		golden.Tombstone(t, store)
		execute(t, pool, `UPDATE oncekey_records SET retain_until = retain_until - 10800000000, sweep_after = sweep_after - 10800000000`)
		if _, err := store.Sweep(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		golden.Fill(t, store)
		for _, row := range golden.Rows(t, db, "SELECT * FROM "+pgstore.DefaultTable+" ORDER BY record_key") {
			key := (*row["record_key"])[len("text "):]
			all = append(all, golden.Stored(t, store, key, row))
		}
		execute(t, pool, "DELETE FROM "+pgstore.DefaultTable)
		return all
	}, func(t *testing.T, released golden.StoredRow) {
		t.Helper()
		released.Row.Insert(t, db, pgstore.DefaultTable, func(n int) string { return fmt.Sprintf("$%d", n) })
		golden.Want(t, golden.Stored(t, store, released.Key, released.Row), released)
	})
}

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t))
	var cases atomic.Int32
	storetest.RunLimiter(t, storetest.Config{Unit: unit, New: func(t testing.TB) storage.Store {
		return named(t, pool, fmt.Sprintf("scope_case_%d", cases.Add(1)), ways["mixed"])
	}})
}

// Processes share the counts: together they admit exactly as many keys as the limit allows.
func TestScopesOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	named(t, connect(t, server), "shared_scopes", ways["mixed"])
	const allowed, callers = 20, 60
	var processes [3]*pgstore.Store
	for n := range processes {
		processes[n] = pgstore.New(connect(t, server), pgstore.Table("shared_scopes"))
	}
	var admitted atomic.Int32
	concurrently(callers, func(n int) {
		limit := storage.ScopeLimit{InFlight: allowed, NewKeys: allowed + 5, Window: time.Hour}
		place := storage.Place{Scope: fmt.Sprintf("%064x", 1), Token: storage.NewToken()}
		a, err := processes[n%len(processes)].Admit(t.Context(), place, time.Hour, limit)
		if err != nil {
			t.Error(err)
		} else if a.Reached == 0 {
			admitted.Add(1)
		}
	})
	testkit.Equal(t, admitted.Load(), allowed, "keys that are admitted")
}
