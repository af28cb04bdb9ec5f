package tiered

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// patience is for a busy machine: a test that counts calls must not see a timeout.
const patience = 10 * time.Second

var (
	win, find, must = testkit.Win, testkit.Find, testkit.Must
	claim, result   = testkit.TakeOver, testkit.Result
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// Each case has a prefix and a table of its own, which are as good as empty databases. The suite's many keys must fit
// into a hundred units.
func TestConformanceOverRedisAndPostgreSQL(t *testing.T) {
	t.Parallel()
	rdb := connect(t)
	pool := openPool(t, 20)
	var cases atomic.Int32
	storetest.Run(t, storetest.Config{
		New: func(t testing.TB) storage.Store {
			n := cases.Add(1)
			table := pgstore.Table(fmt.Sprintf("case_%d", n))
			must(t, pgstore.Migrate(t.Context(), pool, table))
			hot := redisstore.New(rdb, redisstore.Prefix(fmt.Sprintf("case%d:", n)))
			return tieredstore.New(testkit.Patient{Inspectable: hot}, pgstore.New(pool, table), tieredstore.Logger(slog.New(slog.DiscardHandler)))
		},
		Unit: 400 * time.Millisecond,
	})
}

// connect starts a Redis, and returns a client of it.
func connect(t *testing.T) *redis.Client {
	t.Helper()
	return service.Redis(t, redis.Options{Addr: redistest.Start(t).Addr(), MaxRetries: -1})
}

func openPool(t *testing.T, connections int32) *pgxpool.Pool {
	t.Helper()
	return service.Pool(t, postgrestest.Shared(t), func(c *pgxpool.Config) { c.MaxConns = connections })
}

// The suite for stores with transactions, over two servers. Each case has a prefix and tables of its own.
func TestTransactorOverRedisAndPostgreSQL(t *testing.T) {
	t.Parallel()
	rdb := connect(t)
	pool := openPool(t, 20)
	var cases atomic.Int32
	storetest.RunTransactor(t, storetest.TransactorConfig{
		New: func(t testing.TB) (storage.Transactor, storetest.Table) {
			n := cases.Add(1)
			name := fmt.Sprintf("transactor_%d", n)
			must(t, pgstore.Migrate(t.Context(), pool, pgstore.Table(name)))
			_, err := pool.Exec(t.Context(), `CREATE TABLE `+name+`_written (id text)`)
			must(t, err)
			hot := redisstore.New(rdb, redisstore.Prefix(name+":"))
			store := tieredstore.New(hot, pgstore.New(pool, pgstore.Table(name)), tieredstore.HotTimeout(patience))
			return store, storetest.Table{
				Write: func(handler context.Context, id string) error {
					tx, err := pgstore.Tx(handler)
					if err != nil {
						return err
					}
					_, err = tx.Exec(handler, `INSERT INTO `+name+`_written VALUES ($1)`, id)
					return err
				},
				Has: func(ctx context.Context, id string) (has bool, err error) {
					err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+name+`_written WHERE id = $1)`, id).Scan(&has)
					return has, err
				},
			}
		},
		Unit: 400 * time.Millisecond,
	})
}

// A handler's writes, its answer, and a replay for which PostgreSQL is not needed.
func TestTransactionInPostgreSQL(t *testing.T) {
	t.Parallel()
	pool := openPool(t, 4)
	must(t, pgstore.Migrate(t.Context(), pool))
	must(t, func() error { _, err := pool.Exec(t.Context(), `CREATE TABLE payments (id text)`); return err }())
	store := tieredstore.New(redisstore.New(connect(t)), pgstore.New(pool), tieredstore.HotTimeout(patience))
	pay := func(key string) (storage.Transaction, storage.Lease) {
		lease := win(t, store, claim(key))
		ctx, transaction, err := store.BeginTransaction(t.Context(), lease)
		must(t, err)
		tx, err := pgstore.Tx(ctx)
		must(t, err)
		_, err = tx.Exec(ctx, `INSERT INTO payments VALUES ($1)`, key)
		must(t, err)
		return transaction, lease
	}
	transaction, lease := pay("paid")
	must(t, transaction.Commit(t.Context(), lease, result("paid")))
	transaction, lease = pay("undone")
	must(t, transaction.Rollback(t.Context()))
	must(t, store.Release(t.Context(), lease))
	var paid string
	must(t, pool.QueryRow(t.Context(), `SELECT string_agg(id, ' ') FROM payments`).Scan(&paid))
	testkit.Equal(t, paid, "paid", "the payments")
	pool.Close()
	replays(t, store, "paid", "paid")
	if _, _, err := store.Acquire(t.Context(), claim("undone")); err == nil {
		t.Error("Acquire of a key that is not in Redis did without PostgreSQL")
	}
}

// replays expects that the key has this response.
func replays(t *testing.T, store storage.Store, key, body string) {
	t.Helper()
	if r := find(t, store, claim(key)); r.State != storage.Completed || string(r.Body) != body || r.Status != 201 {
		t.Errorf("key %q has %+v, want the response %q", key, r, body)
	}
}
