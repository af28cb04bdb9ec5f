package main

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
)

//go:embed tables.sql
var tables string

const (
	// connections of a pool, unless the URL sets more. Each transfer holds one connection
	// while it runs, and the engine needs some of the others.
	connections    = 20
	connectTimeout = 5 * time.Second
	sweepEvery     = 10 * time.Minute
	closeDeadline  = 5 * time.Second
)

// database is a PostgreSQL database with the tables of the records and of the shop.
type database struct {
	pool     *pgxpool.Pool
	records  *pgstore.Store
	endSweep context.CancelFunc
	sweeping sync.WaitGroup
}

func openDatabase(ctx context.Context, s settings) (*database, error) {
	config, err := pgxpool.ParseConfig(s.postgres)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := &database{pool: pool, records: pgstore.New(pool)}
	ctx, db.endSweep = context.WithCancel(context.WithoutCancel(ctx)) // the sweeper runs until close
	db.sweeping.Go(func() { db.records.RunSweeper(ctx, sweepEvery) })
	return db, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	if err := pgstore.Migrate(ctx, pool); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, tables)
	return err
}

// close ends the sweeper before the pool. A pool waits for its users: a handler that
// outlasts the shutdown must not keep the program running.
func (db *database) close() error {
	db.endSweep()
	return within(closeDeadline, func(ctx context.Context) error {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			db.sweeping.Wait()
			db.pool.Close()
		}()
		select {
		case <-closed:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("postgres: connections are still in use: %w", ctx.Err())
		}
	})
}
