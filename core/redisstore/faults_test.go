package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Case 15: scripts lost.
func TestScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	for _, key := range []string{"a", "b"} {
		lease := win(t, store, claim(key))
		must(t, rdb.ScriptFlush(t.Context()).Err())
		must(t, store.Complete(t.Context(), lease, result(key)))
	}
	abandoned(t, store, "c")
	must(t, rdb.ScriptFlush(t.Context()).Err())
	winAttempt(t, store, takeOver("c"), 2, true)
}

// settingsRead waits until a new store has asked for the server's settings. The store asks in
// the background, and would otherwise dial a server that these tests have killed.
func settingsRead(t *testing.T, server *redistest.Server) {
	t.Helper()
	eventually(t, func() bool {
		served, err := server.Do(t.Context(), "INFO", "commandstats")
		must(t, err)
		return strings.Contains(served.(string), "cmdstat_config")
	})
}

func TestServerThatRestartsEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(connect(t, server, nil))
	completed, released, extended := win(t, store, claim("completed")), win(t, store, claim("released")), win(t, store, claim("extended"))
	settingsRead(t, server)
	server.Kill()
	server.Restart()
	must(t, store.Complete(t.Context(), completed, result("answer")))
	must(t, store.Release(t.Context(), released))
	must(t, store.Extend(t.Context(), extended, time.Minute))
	replays(t, store, claim("completed"), "answer")
	if r := find(t, store, claim("extended")); r.State != storage.InProgress || r.Attempt != 1 {
		t.Errorf("the record is %+v, want attempt 1 in progress", r)
	}
	win(t, store, claim("released"))
}

func TestServerThatRestartsWithItsData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Persistent()...)
	store := redisstore.New(connect(t, server, nil))
	running, finished := win(t, store, claim("running")), win(t, store, claim("finished"))
	must(t, store.Complete(t.Context(), finished, result("answer")))
	settingsRead(t, server)
	server.Kill()
	server.Restart()
	if r := find(t, store, claim("running")); r.State != storage.InProgress || r.LeaseLeft <= 0 || r.LeaseLeft > time.Minute {
		t.Errorf("the record is %+v, want it in progress", r)
	}
	replays(t, store, claim("finished"), "answer")
	must(t, store.Complete(t.Context(), running, result("late")))
}

// Case 12: a server that accepts calls and never responds.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := connect(t, server, func(options *redis.Options) { options.ReadTimeout = 20 * time.Second })
	for name, client := range map[string]redis.UniversalClient{"plain": rdb, "pipelined": pipelined(t, rdb)} {
		store := redisstore.New(client, redisstore.Prefix(name))
		lease := win(t, store, claim("key"))
		server.Pause()
		start := time.Now()
		for operation, err := range tryAll(t, store, lease, 50*time.Millisecond) {
			fails(t, name+": "+operation, err, context.DeadlineExceeded)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%s: four calls of 50 ms took %s", name, took)
		}
		server.Resume()
	}
}

// Case 11: a frozen server carries out its pending commands when it continues.
func TestClaimThatWasAppliedAfterItsDeadline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(connect(t, server, nil))
	win(t, store, claim("warm"))
	c := claim("key")
	server.Pause()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := store.Acquire(short, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Acquire returned %v, want context.DeadlineExceeded", err)
	}
	server.Resume()
	win(t, store, c)
	if r := find(t, store, claim("key")); r.State != storage.InProgress || r.Attempt != 1 {
		t.Errorf("the record is %+v, want attempt 1 in progress", r)
	}
}

// Case 15: a refusal by the server is an error, and no caller gets a lease.
func TestServerThatRefuses(t *testing.T) {
	t.Parallel()
	type test struct {
		setting  []string
		mentions string
	}
	testkit.Each(t, map[string]test{
		"out of memory":       {[]string{"maxmemory", "1"}, "OOM"},
		"not enough replicas": {[]string{"min-replicas-to-write", "1"}, "NOREPLICAS"},
	}, func(t *testing.T, test test) {
		rdb := connect(t, redistest.Start(t), func(options *redis.Options) { options.MaxRetries = -1 })
		store := redisstore.New(rdb)
		lease := win(t, store, claim("key"))
		must(t, rdb.ConfigSet(t.Context(), test.setting[0], test.setting[1]).Err())
		refuses(t, rdb, lease, test.mentions)
	})
	t.Run("read only", func(t *testing.T) {
		t.Parallel()
		rdb := connect(t, redistest.Start(t), func(options *redis.Options) { options.MaxRetries = -1 })
		lease := win(t, redisstore.New(rdb), claim("key"))
		must(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		refuses(t, rdb, lease, "READONLY")
	})
}

// refuses expects the server's error from each method, directly and pipelined.
func refuses(t *testing.T, rdb *redis.Client, lease storage.Lease, mentions string) {
	t.Helper()
	for name, client := range map[string]redis.UniversalClient{"plain": rdb, "pipelined": pipelined(t, rdb)} {
		for operation, err := range tryAll(t, redisstore.New(client), lease, 10*time.Second) {
			if operation == "Release" && err == nil {
				continue // deleting needs no memory
			}
			if err == nil || !strings.Contains(err.Error(), mentions) || errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("%s: %s returned %v, want an error with %s", name, operation, err, mentions)
			}
		}
	}
}

// panicking is a hook that panics while it is told to.
type panicking struct{ panics atomic.Bool }

func (p *panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if p.panics.Load() {
			panic("hook bug")
		}
		return next(ctx, command)
	}
}

func (p *panicking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if p.panics.Load() {
			panic("hook bug")
		}
		return next(ctx, commands)
	}
}

// Case 39: a panic of one of the client's hooks is an error of the call, from the first
// claim of a process on, and the next call works.
func TestPanickingHookIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, punctual := range map[string]bool{"punctual": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := &panicking{}
			rdb := connect(t, server, func(options *redis.Options) { options.ContextTimeoutEnabled = punctual })
			rdb.AddHook(hook)
			store := redisstore.New(rdb, redisstore.Prefix(name+":"))
			hook.panics.Store(true)
			fails(t, "the first claim", tryAll(t, store, storage.Lease{}, time.Second)["Acquire"], nil, "the Redis client panicked at ")
			hook.panics.Store(false)
			lease := win(t, store, claim("key"))
			hook.panics.Store(true)
			for operation, err := range tryAll(t, store, lease, time.Second) {
				fails(t, operation, err, nil, "the Redis client panicked at ")
			}
			hook.panics.Store(false)
			must(t, store.Complete(t.Context(), lease, result("answer")))
		})
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // a port that no other test's server takes
	defer rdb.Close()
	store := redisstore.New(rdb)
	if _, _, err := store.Acquire(t.Context(), claim("key")); err == nil || !strings.Contains(err.Error(), `"oncekey:key"`) {
		t.Errorf("Acquire returned %v, want an error that names the key", err)
	}
	if _, _, err := store.Acquire(context.Background(), claim("key")); err == nil {
		t.Error("Acquire without a deadline returned nil, want an error")
	}
}

func TestPrefixesShareNothing(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	payments, orders := redisstore.New(rdb, redisstore.Prefix("payments:")), redisstore.New(rdb, redisstore.Prefix("orders:"))
	must(t, payments.Complete(t.Context(), win(t, payments, claim("key")), result("payment")))
	must(t, orders.Release(t.Context(), win(t, orders, claim("key"))))
	replays(t, payments, claim("key"), "payment")
	if there := rdb.Exists(t.Context(), "payments:key").Val(); there != 1 || rdb.DBSize(t.Context()).Val() != 1 {
		t.Error("want only payments:key")
	}
}
