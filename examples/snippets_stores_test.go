package examples_test

import (
	"context"
	"database/sql"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/policy"
)

// The stores' own tests use Redis; this test only makes the stores.
func TestRedisOfTwoServices(t *testing.T) {
	t.Parallel()
	connect := func() (*core.Engine, *redis.Client, error) {
		rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
		engine, err := core.New(redisstore.New(rdb), core.ScopeBy(userID), core.WithService("payments"))
		return engine, rdb, err
	}
	engine, rdb, err := connect()
	if err != nil || engine == nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	prefixed := func() storage.Store {
		store := redisstore.New(rdb, redisstore.Prefix("payments:"))
		return store
	}
	named := func(store storage.Store) error {
		engine, err := core.New(store, core.ScopeBy(userID), core.WithService("payments"))
		payTwice(t, engine.Handler(http.HandlerFunc(pay)), "/payments")
		return err
	}
	if err := named(tieredstore.New(memstore.New(memstore.Cache()), memstore.New())); err != nil || prefixed() == nil {
		t.Error(err)
	}
}

// onCluster is compiled, and not run: the tests of redisstore have a cluster.
func onCluster(nodes []string) (*core.Engine, error) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: nodes, ContextTimeoutEnabled: true, DialTimeout: time.Second, ReadTimeout: time.Second, DialerRetries: 1,
	})
	pipeline, err := cluster.AutoPipeline()
	if err != nil {
		return nil, err
	}
	engine, err := core.New(redisstore.New(pipeline), core.ScopeBy(userID), core.WithService("payments"))
	return engine, err
}

var _ = onCluster

func TestSQLite(t *testing.T) {
	t.Parallel()
	open := func(ctx context.Context, path string) (storage.Store, error) {
		name := "file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)"
		db, err := sql.Open("sqlite", name)
		if err != nil {
			return nil, err
		}
		if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite()); err != nil {
			return nil, err
		}
		store := sqlstore.New(db, sqlstore.SQLite())
		go store.RunSweeper(ctx, 10*time.Minute)
		t.Cleanup(func() { db.Close() })
		return store, nil
	}
	store, err := open(t.Context(), filepath.Join(t.TempDir(), "records.db"))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := core.New(store, core.ScopeBy(userID))
	if err != nil {
		t.Fatal(err)
	}
	payTwice(t, engine.Handler(http.HandlerFunc(pay), policy.StoreTimeout(time.Minute)), "/payments") // the disk may be busy
}

// migrateAndSweep is compiled, and not run: the tests of pgstore have a database.
func migrateAndSweep(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, "postgres://shop@db/shop")
	if err != nil {
		return err
	}
	if err := pgstore.Migrate(ctx, pool); err != nil {
		return err
	}
	store := pgstore.New(pool)
	go store.RunSweeper(ctx, 10*time.Minute)
	_, err = core.New(store, core.ScopeBy(userID))
	return err
}

var _ = migrateAndSweep
