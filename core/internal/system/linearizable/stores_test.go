package linearizable

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/internal/system/soak"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(mysqltest.Main(m))) }

// stores are the stores to examine.
var stores = map[string]func(t *testing.T) storage.Store{
	"memstore":   func(*testing.T) storage.Store { return memstore.New() },
	"redisstore": func(t *testing.T) storage.Store { return redisstore.New(connect(t)) },
	"pgstore":    batches,
	"pgstore without batches": func(t *testing.T) storage.Store {
		return pgstore.New(database(t, nil), pgstore.WithoutBatches())
	},
	"sqlstore on PostgreSQL": func(t *testing.T) storage.Store {
		return overSQL(t, "pgx", postgrestest.Shared(t), sqlstore.PostgreSQL())
	},
	"sqlstore on SQLite": func(t *testing.T) storage.Store {
		file := "file:" + filepath.Join(t.TempDir(), "records.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(5000)"
		return overSQL(t, "sqlite", file, sqlstore.SQLite())
	},
	"sqlstore on MySQL": func(t *testing.T) storage.Store {
		return overSQL(t, "mysql", mysqltest.MySQL.Shared(t), sqlstore.MySQL())
	},
	"sqlstore on MariaDB": func(t *testing.T) storage.Store {
		return overSQL(t, "mysql", mysqltest.MariaDB.Shared(t), sqlstore.MySQL())
	},
	"tieredstore": func(t *testing.T) storage.Store {
		return tieredstore.New(redisstore.New(connect(t)), pgstore.New(database(t, nil)))
	},
}

// batches returns a store whose callers outnumber its statements, so most calls are in
// batches.
func batches(t *testing.T) storage.Store {
	var all batchCounter
	store := pgstore.New(database(t, &all))
	t.Cleanup(func() {
		t.Logf("%d batches of claims, %d batches of results", all.claims.Load(), all.results.Load())
		if all.claims.Load() == 0 || all.results.Load() == 0 {
			t.Error("there were no batches")
		}
	})
	return store
}

// batchCounter counts the statements of batches.
type batchCounter struct{ claims, results atomic.Int64 }

// TraceBatchQuery implements pgx.BatchTracer.
func (b *batchCounter) TraceBatchQuery(_ context.Context, _ *pgx.Conn, query pgx.TraceBatchQueryData) {
	switch {
	case !strings.Contains(query.SQL, "unnest("):
	case strings.Contains(query.SQL, "INSERT"):
		b.claims.Add(1)
	default:
		b.results.Add(1)
	}
}

// TraceBatchStart implements pgx.BatchTracer.
func (*batchCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchEnd implements pgx.BatchTracer.
func (*batchCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceQueryStart implements pgx.QueryTracer.
func (*batchCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*batchCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// overSQL returns a store on a new, migrated database.
func overSQL(t *testing.T, driver, dsn string, dialect sqlstore.Dialect) storage.Store {
	t.Helper()
	db := service.SQL(t, driver, dsn)
	db.SetMaxIdleConns(keys * callersPerKey)
	testkit.Must(t, sqlstore.Migrate(t.Context(), db, dialect))
	return sqlstore.New(db, dialect)
}

// database returns a pool on a new, migrated database.
func database(t *testing.T, tracer pgx.QueryTracer) *pgxpool.Pool {
	t.Helper()
	pool := service.Pool(t, postgrestest.Shared(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	testkit.Must(t, pgstore.Migrate(t.Context(), pool))
	return pool
}

// connect returns a client of a new Redis. The client never repeats a command, because
// the history would miss the repeated call.
func connect(t *testing.T) *redis.Client {
	t.Helper()
	return service.Redis(t, redis.Options{Addr: redistest.Start(t).Addr(), MaxRetries: -1, PoolSize: keys * callersPerKey})
}

// Cases 1, 2, 5, 6 and 11.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			for name, load := range loads {
				t.Run(name, func(t *testing.T) {
					for seed := range uint64(2) {
						expectOrder(t, store, load, seed)
					}
				})
			}
		})
	}
}

// TestSoak continues with other seeds for the time in ONCEKEY_SOAK.
func TestSoak(t *testing.T) {
	t.Parallel()
	soak.Duration(t)
	testkit.Each(t, stores, func(t *testing.T, open func(t *testing.T) storage.Store) {
		store, histories := open(t), 0
		soak.For(t, func() {
			for _, load := range loads {
				expectOrder(t, store, load, rand.Uint64())
				histories += keys
			}
		})
		t.Logf("%d histories are in order", histories)
	})
}

func expectOrder(t *testing.T, store storage.Store, load load, seed uint64) {
	t.Helper()
	if err := examine(context.WithoutCancel(t.Context()), store, load, seed); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}
