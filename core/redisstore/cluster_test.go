package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Three masters share the slots: each key's commands and scripts go to its own.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	for name, client := range map[string]redis.UniversalClient{"plain": cluster, "pipelined": pipelined(t, cluster)} {
		store := redisstore.New(client, redisstore.Prefix(name+":"))
		for n := range 30 {
			key := fmt.Sprintf("%064x", n)
			if n%3 == 0 {
				must(t, store.Release(t.Context(), win(t, store, claim(key))))
			}
			lease := win(t, store, claim(key))
			find(t, store, claim(key))
			must(t, store.Extend(t.Context(), lease, time.Minute))
			must(t, store.Complete(t.Context(), lease, result(key)))
			replays(t, store, claim(key), key)
		}
		abandoned(t, store, "key")
		winAttempt(t, store, takeOver("key"), 2, true)
	}
}

// A client that asks the wrong master for a key is sent on to the right one.
func TestClusterWhoseSlotsHaveMoved(t *testing.T) {
	t.Parallel()
	wrong := []redis.ClusterSlot{{Start: 0, End: 1<<14 - 1, Nodes: []redis.ClusterNode{{Addr: redistest.StartCluster(t, 3, 0).Addrs()[0]}}}}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return wrong, nil }})
	t.Cleanup(func() { cluster.Close() })
	for name, client := range map[string]redis.UniversalClient{"plain": cluster, "pipelined": pipelined(t, cluster)} {
		store := redisstore.New(client)
		for n := range 10 {
			key := fmt.Sprint(name, n)
			must(t, store.Complete(t.Context(), win(t, store, claim(key)), result(key)))
			replays(t, store, claim(key), key)
		}
	}
}

// A key without a Remember is served while its slot moves to another master, there or here.
func TestClusterWhoseSlotIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { cluster.Close() })
	store := redisstore.New(cluster, redisstore.Prefix("{tag}")) // the slot of the key that Check tries, too
	before := win(t, store, claim("before"))
	from, slot := c.ShardOf("{tag}").Master, fmt.Sprint(redistest.Slot("{tag}"))
	to := c.Nodes()[slices.IndexFunc(c.Nodes(), func(s *redistest.Server) bool { return s != from })]
	say := func(server *redistest.Server, words ...string) string {
		reply, err := server.Do(t.Context(), words...)
		must(t, err)
		return fmt.Sprint(reply)
	}
	say(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", say(from, "CLUSTER", "MYID"))
	say(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", say(to, "CLUSTER", "MYID"))
	must(t, store.Check(t.Context()))
	meanwhile := win(t, store, claim("meanwhile"))
	for _, lease := range []storage.Lease{before, meanwhile} {
		testkit.IsRunning(t, store, lease.Key)
		must(t, store.Extend(t.Context(), lease, 0))
		next := win(t, store, takeOver(lease.Key))
		must(t, store.Complete(t.Context(), next, result(lease.Key)))
		replays(t, store, claim(lease.Key), lease.Key)
	}
}

func pipelined(t *testing.T, client interface {
	AutoPipeline() (*redis.AutoPipeliner, error)
},
) *redis.AutoPipeliner {
	t.Helper()
	pipeliner, err := client.AutoPipeline()
	must(t, err)
	return pipeliner
}

// startCluster returns a client of a cluster that serves all slots.
func startCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t, 3, 0).Addrs()})
	t.Cleanup(func() { cluster.Close() })
	return cluster
}

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
