package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// halfASecond is a context whose deadline is always near, as the engine's are. It must
// not be asked for a channel: that would cost a timer.
type halfASecond struct{ context.Context }

func (halfASecond) Deadline() (time.Time, bool) { return time.Now().Add(time.Second / 2), true }

func (halfASecond) Done() <-chan struct{} { panic("a call watches its context by itself") }

// leastAllocations is the least of some measurements. On a busy machine a slow call allocates
// more: it shares its end with fewer calls.
func leastAllocations(call func()) float64 {
	least := testing.AllocsPerRun(100, call)
	for range 4 {
		least = min(least, testing.AllocsPerRun(100, call))
	}
	return least
}

// A first-time request and a replay allocate only a little more than go-redis does for
// two commands and for one: no goroutine, no timer and no channel for a call. What an
// auto-pipelined call allocates depends on what go-redis waits for, by two or three: these
// limits leave room for it, and the pooled ones are exact.
func TestAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process's
	testkit.NeedsNoRaceDetector(t)
	server := redistest.Start(t)
	pooled := connect(t, server, punctual)
	pipeliner, err := connect(t, server, patient).AutoPipeline()
	must(t, err)
	for _, test := range []struct {
		name          string
		client        redis.UniversalClient
		first, replay float64
	}{{"pooled", pooled, 34, 18}, {"auto-pipelined", pipeliner, 60, 32}} {
		t.Run(test.name, func(t *testing.T) {
			store, ctx, n := redisstore.New(test.client), halfASecond{t.Context()}, 0
			must(t, store.Check(t.Context()))
			var c storage.Claim // whose pointer allocates once
			first := func() {
				n++
				c = claim(fmt.Sprint(test.name, n))
				lease, found, err := store.Acquire(ctx, &c)
				if err != nil || found != nil {
					t.Fatalf("Acquire returned %+v and %v, want a lease", found, err)
				}
				must(t, store.Complete(ctx, lease, result("answer")))
			}
			first()
			if got := leastAllocations(first); got > test.first {
				t.Errorf("a first-time request allocates %v times, want at most %v", got, test.first)
			}
			replay := func() {
				c = claim(fmt.Sprint(test.name, 1))
				if _, found, err := store.Acquire(ctx, &c); err != nil || found.State != storage.Completed {
					t.Fatalf("Acquire returned %+v and %v, want the response", found, err)
				}
			}
			if got := leastAllocations(replay); got > test.replay {
				t.Errorf("a replay allocates %v times, want at most %v", got, test.replay)
			}
		})
	}
}
