package tieredstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 47: a hot tier that refuses connections costs little time, and the log names
// the cause.
func TestHotTierThatRefusesConnections(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // a port that no other test's server takes
	defer rdb.Close()
	var log bytes.Buffer
	store := tieredstore.New(redisstore.New(rdb), memstore.New(),
		tieredstore.Logger(slog.New(slog.NewTextHandler(&log, nil))), tieredstore.HotTimeout(10*time.Second))
	start := time.Now()
	finish(t, store, "key", "answer")
	if took := time.Since(start); took > time.Second {
		t.Errorf("a first run took %s without its hot tier", took)
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("the log says %q, want the cause", log.String())
	}
}

// tooLarge refuses a result with a body for good.
func tooLarge(_ context.Context, method string, apply func() error) error {
	if method == "Complete" {
		return fmt.Errorf("full table: %w", storage.ErrNotStorable)
	}
	return apply()
}

// Case 95: the hot tier refuses large responses for good. The durable tier replays them,
// and the hot tier serves the other keys.
func TestHotTierThatRefusesResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		finish(t, s, "small", "answer")
		var leases []storage.Lease
		for n := range 10 {
			leases = append(leases, win(t, s, claim(fmt.Sprint("large", n))))
		}
		s.hot.set(tooLarge)
		for _, lease := range leases {
			must(t, s.Complete(t.Context(), lease, result("answer")))
		}
		s.hot.taken()
		s.durable.taken()
		replays(t, s, "small", "answer")
		s.wants(t, 1, 0)
		for _, lease := range leases {
			replays(t, s, lease.Key, "answer")
		}
	})
}

// Case 95: the durable tier's refusal reaches the engine, which then stores the outcome.
func TestDurableTierThatRefusesAResponse(t *testing.T) {
	t.Parallel()
	s := newTiers()
	lease := win(t, s, claim("key"))
	s.durable.set(tooLarge)
	fails(t, "Complete", s.Complete(t.Context(), lease, result("answer")), storage.ErrNotStorable)
	s.durable.set(nil)
	runs(t, s, "key")
	must(t, s.Complete(t.Context(), lease, storage.Result{State: storage.Unreplayable, Status: 201, Retain: time.Hour}))
	testkit.Equal(t, find(t, s, claim("key")).State, storage.Unreplayable, "the record's state")
}
