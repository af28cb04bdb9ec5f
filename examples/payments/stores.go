package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// stores are the values of -store. Each function opens its store and the shop's own
// tables.
var stores = map[string]func(context.Context, settings, *journal) (backend, error){
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
	ledger ledger
	bank   bank // nil without transactions
	// close must be called after the last response is stored.
	close func() error
}

func openMemory(_ context.Context, _ settings, j *journal) (backend, error) {
	return backend{store: memstore.New(), ledger: newMemoryLedger(j), close: func() error { return nil }}, nil
}

func openRedis(_ context.Context, s settings, j *journal) (backend, error) {
	client := newRedisClient(s)
	return backend{store: redisstore.New(client), ledger: newMemoryLedger(j), close: client.Close}, nil
}

func newRedisClient(s settings) *redis.Client {
	s.redis.ContextTimeoutEnabled = true // a call ends at once when its context ends
	return redis.NewClient(s.redis)
}

func openPostgres(ctx context.Context, s settings, j *journal) (backend, error) {
	db, err := openDatabase(ctx, s)
	if err != nil {
		return backend{}, err
	}
	return backend{store: db.records, ledger: &tableLedger{j, db.pool}, bank: &postgresBank{db.pool}, close: db.close}, nil
}

// openTiered keeps all records in PostgreSQL, and replays from Redis.
func openTiered(ctx context.Context, s settings, j *journal) (backend, error) {
	b, err := openPostgres(ctx, s, j)
	if err != nil {
		return backend{}, err
	}
	client, closeDatabase := newRedisClient(s), b.close
	b.store = tieredstore.New(redisstore.New(client), b.store)
	b.close = func() error { return errors.Join(client.Close(), closeDatabase()) }
	return b, nil
}
