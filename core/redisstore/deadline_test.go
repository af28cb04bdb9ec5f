package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// long is the client's own wait, and muchLess the time limit of a call.
const long, muchLess = time.Minute, 15 * time.Second

func patient(options *redis.Options) { options.ReadTimeout, options.PoolSize = long, 8 }

func punctual(options *redis.Options) {
	patient(options)
	options.ContextTimeoutEnabled = true
}

// Case 12: calls of a client that keeps deadlines end with them, although they do
// without a goroutine: on a connection that is there, on a new one, and while they
// wait for one.
func TestFrozenServerOfAPunctualClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]bool{"warm": true, "cold": false}, func(t *testing.T, warm bool) {
		server := redistest.Start(t)
		store := redisstore.New(connect(t, server, punctual))
		if warm {
			win(t, store, claim("warm"))
		}
		server.Pause()
		defer server.Resume()
		start := time.Now()
		concurrently(20, func(int) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, _, err := store.Acquire(ctx, claim("key"))
			fails(t, "Acquire", err, context.DeadlineExceeded)
		})
		if took := time.Since(start); took > muchLess {
			t.Errorf("calls of 200 ms took %s", took)
		}
	})
}

// Case 19: all connections are taken.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), func(options *redis.Options) { options.PoolSize, options.ContextTimeoutEnabled = 1, true })
	store := redisstore.New(rdb)
	win(t, store, claim("warm"))
	taken := rdb.Conn()
	defer taken.Close()
	must(t, taken.Ping(t.Context()).Err())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := store.Acquire(ctx, claim("key"))
	fails(t, "Acquire", err, context.DeadlineExceeded, "all 1 connections of the pool are in use")
}

// Case 12: so do calls through an AutoPipeliner. Its own commands watch no context.
func TestFrozenServerOfAnAutoPipeliner(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]time.Duration{"near": 200 * time.Millisecond, "far, and cancelled": 2 * long}, func(t *testing.T, deadline time.Duration) {
		server := redistest.Start(t)
		store := redisstore.New(pipelined(t, connect(t, server, patient)))
		lease := win(t, store, claim("warm"))
		server.Pause()
		defer server.Resume()
		start := time.Now()
		concurrently(20, func(n int) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if deadline > long {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			var err error
			if n%2 == 0 {
				_, _, err = store.Acquire(ctx, claim("key"))
			} else {
				err = store.Complete(ctx, lease, result("answer"))
			}
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Errorf("the call returned %v, want the context's error", err)
			}
		})
		if took := time.Since(start); took > muchLess {
			t.Errorf("the calls took %s", took)
		}
	})
}

// Case 12: no client watches for a cancellation. A call whose deadline is far ends
// with it all the same; one whose deadline is near, at the deadline.
func TestCancellationDuringACall(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]time.Duration{"far": 2 * long, "near": time.Second}, func(t *testing.T, deadline time.Duration) {
		server := redistest.Start(t)
		store := redisstore.New(connect(t, server, punctual))
		win(t, store, claim("warm"))
		server.Pause()
		defer server.Resume()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, _, err := store.Acquire(ctx, claim("key")); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire returned %v, want context.Canceled", err)
		}
		if took := time.Since(start); took > muchLess {
			t.Errorf("a call that was cancelled after 50 ms took %s", took)
		}
	})
}
