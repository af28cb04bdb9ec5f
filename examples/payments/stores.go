package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/examples/payments/internal/shop"
)

const (
	// connections of a pool, unless the URL sets more. Each transfer holds one connection
	// while it runs, and the engine needs some of the others.
	connections    = 20
	connectTimeout = 5 * time.Second
	sweepEvery     = 10 * time.Minute
	closeDeadline  = 5 * time.Second
)

// stores are the values of -store. Each function opens its store and the shop's own
// tables.
var stores = map[string]func(context.Context, settings, *shop.Journal) (backend, error){
	"memory":   openMemory,
	"redis":    openRedis,
	"postgres": openPostgres,
	"tiered":   openTiered,
	"sqlite":   openSQLite,
	"mysql":    openMySQL,
}

// backend holds all storage.
type backend struct {
	store  storage.Store
	ledger shop.Ledger
	bank   shop.Bank // nil without transactions
	// close must be called after the last response is stored.
	close func() error
}

func openMemory(_ context.Context, _ settings, j *shop.Journal) (backend, error) {
	return backend{store: memstore.New(), ledger: shop.NewMemoryLedger(j), close: func() error { return nil }}, nil
}

func openRedis(_ context.Context, s settings, j *shop.Journal) (backend, error) {
	client := newRedisClient(s)
	return backend{store: redisstore.New(client), ledger: shop.NewMemoryLedger(j), close: client.Close}, nil
}

func newRedisClient(s settings) *redis.Client {
	s.redis.ContextTimeoutEnabled = true // a call ends at once when its context ends
	return redis.NewClient(s.redis)
}

// openTiered keeps all records in PostgreSQL, and replays from Redis.
func openTiered(ctx context.Context, s settings, j *shop.Journal) (backend, error) {
	b, err := openPostgres(ctx, s, j)
	if err != nil {
		return backend{}, err
	}
	client, closeDatabase := newRedisClient(s), b.close
	b.store = tieredstore.New(redisstore.New(client), b.store)
	b.close = func() error { return errors.Join(client.Close(), closeDatabase()) }
	return b, nil
}

func openPostgres(ctx context.Context, s settings, j *shop.Journal) (backend, error) {
	config, err := pgxpool.ParseConfig(s.postgres)
	if err != nil {
		return backend{}, err
	}
	config.MaxConns = max(config.MaxConns, connections)
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	// A process that freezes within a transfer keeps its rows locked, even for the attempt
	// that takes over after the lease. So the server ends such a transaction when the lease
	// ends too. A handler that stays idle in its transaction for longer, because it waits
	// for another service, needs a longer timeout.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(s.times.lockTTL.Milliseconds(), 10)

	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return backend{}, err
	}
	store, db := pgstore.New(pool), stdlib.OpenDBFromPool(pool)
	b := backend{store: store}
	if err = pgstore.Migrate(ctx, pool); err == nil {
		b.ledger, b.bank, err = shop.OverPostgres(ctx, db, j)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("postgres: %w", err), db.Close())
		pool.Close()
		return backend{}, err
	}
	endSweep := sweep(ctx, store)
	// A pool waits for its users: a handler that outlasts the shutdown must not keep the program running.
	b.close = func() error {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			endSweep()
			_ = db.Close() // it has no connections of its own
			pool.Close()
		}()
		select {
		case <-closed:
			return nil
		case <-time.After(closeDeadline):
			return errors.New("postgres: connections are still in use")
		}
	}
	return b, nil
}

// sweep runs the sweeper of a store until the returned function is called.
func sweep(ctx context.Context, store interface {
	RunSweeper(ctx context.Context, every time.Duration)
},
) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var sweeping sync.WaitGroup
	sweeping.Go(func() { store.RunSweeper(ctx, sweepEvery) })
	return func() { cancel(); sweeping.Wait() }
}

// openSQLite keeps the records and the ledger in one file. It needs no server, and the
// file outlives the process: after kill -9 the next process replays the responses.
func openSQLite(ctx context.Context, s settings, j *shop.Journal) (backend, error) {
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.file}).EscapedPath()}
	name.RawQuery = url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}}.Encode()
	return openSQL(ctx, "sqlite", name.String(), sqlstore.SQLite(), func(db *sql.DB, b *backend) (err error) {
		b.ledger, err = shop.OverSQLite(ctx, db, j)
		return err
	})
}

// openMySQL keeps the records, the ledger and the bank in MySQL or MariaDB.
func openMySQL(ctx context.Context, s settings, j *shop.Journal) (backend, error) {
	config, err := mysql.ParseDSN(s.dsn)
	if err != nil {
		return backend{}, fmt.Errorf("mysql: %w", err)
	}
	// The server closes a connection that is idle for as long as the lease, in whole seconds,
	// and rolls its transaction back: see openPostgres. The pool closes idle connections
	// before that.
	if config.Params == nil {
		config.Params = map[string]string{}
	}
	config.Params["wait_timeout"] = strconv.FormatFloat(math.Ceil(s.times.lockTTL.Seconds()), 'f', 0, 64)
	if config.Timeout == 0 {
		config.Timeout = connectTimeout
	}
	return openSQL(ctx, "mysql", config.FormatDSN(), sqlstore.MySQL(), func(db *sql.DB, b *backend) (err error) {
		db.SetConnMaxIdleTime(s.times.lockTTL / 2)
		b.ledger, b.bank, err = shop.OverMySQL(ctx, db, j)
		return err
	})
}

// openSQL keeps the records in a database of database/sql, beside the shop's tables.
func openSQL(ctx context.Context, driver, dsn string, dialect sqlstore.Dialect, openShop func(*sql.DB, *backend) error) (backend, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return backend{}, fmt.Errorf("%s: %w", driver, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections) // database/sql keeps two by default, and dials for all others
	var b backend
	if err = sqlstore.Migrate(ctx, db, dialect); err == nil {
		err = openShop(db, &b)
	}
	if err != nil {
		return backend{}, errors.Join(fmt.Errorf("%s: %w", driver, err), db.Close())
	}
	store := sqlstore.New(db, dialect)
	endSweep := sweep(ctx, store)
	b.store, b.close = store, func() error { endSweep(); return db.Close() }
	return b, nil
}
