package tieredstore_test

import (
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// Redis serves replays, the durable store keeps the records.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()
	durable := memstore.New() // in production pgstore.New(pool)

	store := tieredstore.New(redisstore.New(rdb), durable, tieredstore.HotTimeout(50*time.Millisecond))
	userID := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	engine, err := core.New(store, core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	_ = engine // wraps handlers, see package core
}
