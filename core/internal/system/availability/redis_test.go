package availability

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// unreplicated bounds the age of the writes that a killed master may not have sent to its
// replicas. On one machine that is about a millisecond.
const unreplicated = time.Second

// redisFailover kills the master of a Redis that three sentinels watch, and lets them
// promote one of its two replicas after the outage. The programs use redisstore and go-redis
// as they are by default. Redis may lose the last claims, and their keys may run twice.
func redisFailover(t *testing.T, outage time.Duration) scenario {
	t.Helper()
	group := redistest.StartSentinel(t)
	connect := func() redis.UniversalClient {
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: group.SentinelAddrs(), ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { client.Close() })
		return client
	}
	effectIn := func(client redis.UniversalClient) write {
		return func(ctx context.Context, key string) error {
			return client.Set(ctx, "effect:"+key, "1", time.Hour).Err()
		}
	}
	var effects ledger
	client := connect()
	var killed time.Time
	return scenario{
		name:    "Redis with Sentinel: the master is killed, a replica is promoted",
		guarded: guarded(t, redisstore.New(client), effects.counted(effectIn(client))),
		bare:    bare(effectIn(connect())),
		effects: effects.effects,
		strike: func(l *load) time.Time {
			began := time.Now()
			master := group.KillMaster()
			killed = time.Now()
			l.awaitOutage(t, began)
			wait(time.Until(began.Add(outage)))
			group.Promote(master)
			return began
		},
		mayRepeat: func(key string, event time.Time) bool {
			first := effects.first(key)
			return first.Before(killed) && first.After(event.Add(-unreplicated))
		},
	}
}

// TestFailoverInShort is the failover with an outage of a second.
func TestFailoverInShort(t *testing.T) {
	t.Parallel()
	measure(t, redisFailover(t, time.Second), time.Second/2, time.Second/2)
}
