package redisstore_test

import (
	"context"
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

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		expectRoundTrips(t, connect(t, redistest.Start(t), nil), 1)
	})
	// The winner of a key waits for the replicas in one more round trip. No other
	// call does.
	t.Run("with replicas", func(t *testing.T) {
		t.Parallel()
		expectRoundTrips(t, startReplicated(t).rdb, 2, redisstore.WaitReplicas(1, late))
	})
}

func expectRoundTrips(t *testing.T, rdb *redis.Client, claiming int32, options ...redisstore.Option) {
	t.Helper()
	trips := countTrips(rdb)
	store := redisstore.New(rdb, options...)
	warm := win(t, store, claim("warm"))
	must(t, store.Release(t.Context(), warm)) // loads the script
	warm = win(t, store, claim("warm"))
	find(t, store, claim("warm"))
	must(t, store.Complete(t.Context(), warm, result("loads the scripts")))
	trips.Store(0)

	lease := win(t, store, claim("key"))
	trips.expect(t, "claiming a new key", claiming)
	find(t, store, claim("key"))
	trips.expect(t, "finding a key in progress", 2)
	must(t, store.Extend(t.Context(), lease, time.Minute))
	trips.expect(t, "extending", 1)
	must(t, store.Complete(t.Context(), lease, result("answer")))
	trips.expect(t, "completing", 1)
	find(t, store, claim("key"))
	trips.expect(t, "replaying", 1)

	released := win(t, store, claim("released"))
	trips.Store(0)
	must(t, store.Release(t.Context(), released))
	trips.expect(t, "releasing", 1)

	for _, key := range []string{"warm take-over", "take-over"} {
		abandoned(t, store, key)
		trips.Store(0)
		winAttempt(t, store, takeOver(key), 2, true)
	}
	trips.expect(t, "taking over", 3)
}

// The usual settlement has two commands in its script, in each attempt: compare, and write.
func TestCommandsOfASettlement(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	first := win(t, store, claim("key"))
	lease := first
	for lease.Attempt < 11 {
		must(t, rdb.ConfigResetStat(t.Context()).Err())
		must(t, store.Extend(t.Context(), lease, 0))
		stats := rdb.Info(t.Context(), "commandstats").Val()
		usual := strings.Contains(stats, "cmdstat_getrange:calls=1,") && strings.Contains(stats, "cmdstat_set:calls=1,") &&
			!strings.Contains(stats, "cmdstat_pttl")
		if !usual {
			t.Errorf("in attempt %d, one comparison was not enough: %s", lease.Attempt, stats)
		}
		lease = win(t, store, takeOver("key"))
	}
	fails(t, "Complete", store.Complete(t.Context(), first, result("late")), storage.ErrLeaseLost)
	must(t, store.Complete(t.Context(), lease, result("answer")))
	if _, record, err := store.Acquire(t.Context(), claim("key")); err != nil || record == nil || record.Attempt != 11 {
		t.Errorf("Acquire returned %+v, %v, want the response of attempt 11", record, err)
	}
}

// The check before the first claim loads the scripts of the usual requests.
func TestFirstRoundTripsOfAProcess(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	lease := win(t, store, claim("key"))
	trips := countTrips(rdb)
	find(t, store, claim("key"))
	testkit.Equal(t, trips.Swap(0), 2, "round trips of the first look at a key in progress")
	must(t, store.Complete(t.Context(), lease, result("answer")))
	testkit.Equal(t, trips.Swap(0), 1, "round trips of the first response")
}

// countTrips counts the store's round trips, except connecting and reading settings.
// A pipeline is one round trip.
func countTrips(rdb *redis.Client) *tripCounter {
	counter := &tripCounter{}
	rdb.AddHook(counter)
	return counter
}

// tripCounter is a hook that counts round trips.
type tripCounter struct{ atomic.Int32 }

// expect compares the round trips since the last call.
func (c *tripCounter) expect(t *testing.T, what string, want int32) {
	t.Helper()
	testkit.Equal(t, c.Swap(0), want, "round trips of %s", what)
}

func (c *tripCounter) count(first redis.Cmder) {
	switch first.Name() {
	case "set", "evalsha", "eval":
		c.Add(1)
	}
}

func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook {
	return next
}

func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.count(command)
		return next(ctx, command)
	}
}

func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.count(commands[0])
		return next(ctx, commands)
	}
}

func result(body string) storage.Result {
	return storage.Result{State: storage.Completed, Status: 201, Body: []byte(body), Retain: time.Hour}
}

var (
	claim, takeOver, tryAll, eventually = testkit.Claim, testkit.TakeOver, testkit.TryAll, testkit.Eventually
	win, find, must, wantFinding        = testkit.Win, testkit.Find, testkit.Must, testkit.WantFinding
	winAttempt, replays, refused, fails = testkit.WinAttempt, testkit.Replays, testkit.Refused, testkit.Fails
	listAll, concurrently               = testkit.ListAll, testkit.Concurrently
)
