package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// On a cluster WAIT, which has no key, goes to the master of the key: there alone
// it is known whether the replica of just this master has it.
func TestClusterAsksTheReplicasOfTheKeysMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { client.Close() })
	store := redisstore.New(client, redisstore.WaitReplicas(1, late))
	shards := cluster.Shards()
	paused := shards[0]
	paused.Replicas[0].Pause()
	impatient := redisstore.New(client, redisstore.WaitReplicas(1, soon))
	refused := make([]storage.Claim, 0, 30)
	for n := range 30 {
		key := fmt.Sprint("key-", n)
		if paused.Holds("oncekey:" + key) {
			refused = append(refused, claim(key))
			tooFew(t, impatient, refused[len(refused)-1])
			continue
		}
		lease := win(t, store, claim(key))
		must(t, store.Complete(t.Context(), lease, result(key)))
		find(t, store, claim(key))
	}
	if len(refused) == 0 || len(refused) == 30 {
		t.Errorf("%d of 30 keys belong to the master whose replica is unreachable", len(refused))
	}
	paused.Replicas[0].Resume()
	// The same caller's: where a busy machine had no time to give a claim back, it
	// stands until its lease ends.
	for _, again := range refused {
		must(t, store.Complete(t.Context(), win(t, store, again), result(again.Key)))
	}
}

// The client may not know yet where a slot is. It gets a MOVED reply, reloads, and
// later calls find the slot.
func TestClusterLooksForASlotThatHasMoved(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { client.Close() })
	store := redisstore.New(client, redisstore.WaitReplicas(1, late))
	key := "key"
	lease := win(t, store, claim(key))
	shard := cluster.ShardOf("oncekey:" + key)
	_, err := shard.Replicas[0].Do(t.Context(), "CLUSTER", "FAILOVER")
	must(t, err)
	eventually(t, func() bool {
		after := cluster.ShardOf("oncekey:" + key)
		return after.Master != shard.Master && len(after.Replicas) == 1
	})
	eventually(t, func() bool { return store.Complete(t.Context(), lease, result("answer")) == nil })
	replays(t, store, claim(key), "answer")
}

func TestUnreachableClusterConfirmsNoWrite(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1})
	t.Cleanup(func() { client.Close() })
	store := redisstore.New(client, redisstore.WaitReplicas(1, late))
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	lease := storage.Lease{Claim: claim("key"), Attempt: 1}
	if err := store.Complete(ctx, lease, result("answer")); err == nil || errors.Is(err, redisstore.ErrTooFewReplicas) {
		t.Errorf("Complete returned %v, want the client's error", err)
	}
}
