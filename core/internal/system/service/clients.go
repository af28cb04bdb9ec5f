package service

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Redis returns a client that keeps to the deadlines of contexts, as docs/redis.md says. It is closed after the test.
func Redis(t testing.TB, options redis.Options) *redis.Client {
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	return client
}

// Pool returns a pool that is closed after the test. Settings change its configuration.
func Pool(t testing.TB, dsn string, settings ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	testkit.Must(t, err)
	for _, set := range settings {
		set(config)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	testkit.Must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// SQL returns a pool of database/sql that is closed after the test.
func SQL(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	testkit.Must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}
