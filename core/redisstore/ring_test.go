package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 48: a Ring looks for a dead server's keys on another one, where their
// records are not.
func TestRingIsRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1", "two": "127.0.0.1:2"}})
	defer ring.Close()
	for _, client := range []redis.UniversalClient{ring, struct{ *redis.Ring }{ring}} {
		testkit.PanicsWith(t, func() { redisstore.New(client) }, "Ring", "run twice")
	}
	if _, err := ring.AutoPipeline(); err == nil {
		t.Error("a Ring has an AutoPipeliner by now: New must refuse it too")
	}
}
