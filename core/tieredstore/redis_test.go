package tieredstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// patience is for a busy machine: a test that counts calls must not see a timeout.
const patience = time.Minute

// Each case has its own prefix, which is as good as an empty Redis. The suite's many keys
// must fit into a hundred units.
func TestConformanceOverRedis(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t))
	var cases atomic.Int32
	storetest.Run(t, storetest.Config{
		New: func(testing.TB) storage.Store {
			hot := redisstore.New(rdb, redisstore.Prefix(fmt.Sprintf("case%d:", cases.Add(1))))
			return tieredstore.New(testkit.Patient{Inspectable: hot}, memstore.New(), tieredstore.Logger(silent))
		},
		Unit: 400 * time.Millisecond,
	})
}

func connect(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// overRedis returns a store whose hot tier is a real Redis, and the link to its
// durable tier.
func overRedis(t *testing.T, rdb *redis.Client) (*tieredstore.Store, *link) {
	t.Helper()
	durable := newServer().link()
	return tieredstore.New(redisstore.New(rdb), durable, tieredstore.Logger(silent), tieredstore.HotTimeout(patience)), durable
}

// Runs with an unknown outcome end their leases at once. That is no failure of the hot
// tier, which gets a pause after a few failures in a row.
func TestEndedLeasesAreNoFailuresOfRedis(t *testing.T) {
	t.Parallel()
	store, durable := overRedis(t, connect(t, redistest.Start(t)))
	finish(t, store, "key", "answer")
	var running []storage.Lease
	for n := range 10 {
		running = append(running, win(t, store, claim(fmt.Sprintf("ended%d", n))))
	}
	for _, lease := range running {
		must(t, store.Extend(t.Context(), lease, 0))
	}
	durable.taken()
	replays(t, store, "key", "answer")
	durable.wants(t, 0)
}

// Case 17: whatever Redis loses, one execution.
func TestFlushedRedis(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t))
	store, durable := overRedis(t, rdb)
	flush := func() { t.Helper(); must(t, rdb.FlushAll(t.Context()).Err()) }
	lease := win(t, store, claim("key"))
	flush()
	runs(t, store, "key")
	flush()
	must(t, store.Complete(t.Context(), lease, result("answer")))
	durable.taken()
	replays(t, store, "key", "answer")
	durable.wants(t, 0)
	flush()
	replays(t, store, "key", "answer")
	durable.wants(t, 1)
	replays(t, store, "key", "answer")
	durable.wants(t, 0)
}

func TestKilledRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, durable := overRedis(t, connect(t, server))
	finish(t, store, "finished", "answer")
	running := win(t, store, claim("running"))
	server.Kill()
	replays(t, store, "finished", "answer")
	runs(t, store, "running")
	must(t, store.Extend(t.Context(), running, time.Minute))
	must(t, store.Complete(t.Context(), running, result("answer")))
	must(t, store.Release(t.Context(), win(t, store, claim("released"))))
	finish(t, store, "second", "answer")
	server.Restart() // empty
	isRefilled(t, store, durable, []string{"finished", "running", "second"})
	win(t, store, claim("released"))
}

// Case 12: a Redis that accepts calls and never responds costs a little time.
func TestFrozenRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := tieredstore.New(redisstore.New(connect(t, server)), memstore.New(),
		tieredstore.Logger(silent), tieredstore.HotTimeout(20*time.Millisecond))
	finish(t, store, "warm", "answer")
	server.Pause()
	defer server.Resume()
	for n := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		lease, record, err := store.Acquire(ctx, claim(fmt.Sprint(n)))
		if err != nil || record != nil {
			t.Fatalf("Acquire returned record %+v and error %v, want a lease", record, err)
		}
		must(t, store.Complete(ctx, lease, result("answer")))
		cancel()
	}
}

// Case 15: a Redis without free memory refuses writes, and gets calls again when it
// has memory.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t))
	store, durable := overRedis(t, rdb)
	finish(t, store, "finished", "answer")
	short := claim("running") // Redis cannot take its response until the claim in Redis has ended
	short.LockTTL = 3 * time.Second
	running := win(t, store, short)
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if err := rdb.Set(t.Context(), "anything", "", 0).Err(); err == nil {
		t.Fatal("the server takes more, want it full")
	}
	replays(t, store, "finished", "answer")
	runs(t, store, "running")
	must(t, store.Extend(t.Context(), running, short.LockTTL))
	must(t, store.Complete(t.Context(), running, result("answer")))
	must(t, store.Release(t.Context(), win(t, store, claim("released"))))
	finish(t, store, "new", "answer")
	keys := []string{"finished", "running", "new"}
	for _, key := range keys {
		replays(t, store, key, "answer")
	}
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	isRefilled(t, store, durable, keys)
}

// isRefilled waits until the keys are replayed without the durable tier.
func isRefilled(t *testing.T, store *tieredstore.Store, durable *link, keys []string) {
	t.Helper()
	var calls []string
	if !testkit.Poll(20*time.Second, func() bool {
		durable.taken()
		for _, key := range keys {
			replays(t, store, key, "answer")
		}
		calls = durable.taken()
		return len(calls) == 0
	}) {
		t.Errorf("the hot tier was not refilled in 20 s: the durable tier still has the calls %v", calls)
	}
}

// Case 20: an operator has written to Redis by hand.
func TestUnreadableRecordInRedis(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t))
	store, durable := overRedis(t, rdb)
	finish(t, store, "finished", "answer")
	running := win(t, store, claim("running"))
	for _, key := range []string{"finished", "running"} {
		must(t, rdb.Set(t.Context(), redisstore.DefaultPrefix+key, "OK", 0).Err())
	}
	replays(t, store, "finished", "answer")
	runs(t, store, "running")
	must(t, store.Complete(t.Context(), running, result("answer")))
	replays(t, store, "finished", "answer")
	durable.taken()
	for _, key := range []string{"finished", "running"} {
		replays(t, store, key, "answer")
	}
	durable.wants(t, 0)
}
