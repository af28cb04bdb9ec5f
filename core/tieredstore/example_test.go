package tieredstore_test

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// Redis answers, PostgreSQL remembers.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()
	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool); err != nil {
		panic(err)
	}
	durable := pgstore.New(pool)
	go durable.RunSweeper(ctx, 10*time.Minute)

	store := tieredstore.New(redisstore.New(rdb), durable, tieredstore.HotTimeout(50*time.Millisecond))
	userID := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	guard, err := core.New(store, core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	_ = guard // wraps handlers, see package core
}
