package redistest

import (
	"fmt"
	"slices"
	"testing"
)

func TestClusterReplacesItsMaster(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t, 3, 1)
	shards := cluster.Shards()
	if len(cluster.Nodes()) != 6 || len(cluster.Addrs()) != 6 || len(shards) != 3 {
		t.Fatalf("it has %d nodes and %d shards, want 6 and 3", len(cluster.Nodes()), len(shards))
	}
	shard := cluster.ShardOf("key")
	master := cluster.MasterOf("key")
	if shard.Master != master || !shard.Holds("key") || len(shard.Replicas) != 1 {
		t.Fatalf("the shard of the key is %+v, want it to have %s and a replica", shard, master.Addr())
	}
	expectAnswer(t, master, "SET key money", "+OK")
	cluster.AwaitReplication()

	master.Kill()
	successor := cluster.MasterOf("key")
	if successor != shard.Replicas[0] {
		t.Errorf("its successor is %s, want its replica %s", successor.Addr(), shard.Replicas[0].Addr())
	}
	expectAnswer(t, successor, "GET key", "$5", "money")

	master.Restart()
	cluster.AwaitHealthy()
	if again := cluster.ShardOf("key"); again.Master != successor || !slices.Contains(again.Replicas, master) {
		t.Errorf("the shard of the key is %+v, want %s to have become a replica", again, master.Addr())
	}
}

// What CLUSTER KEYSLOT says is right.
func TestSlot(t *testing.T) {
	t.Parallel()
	server := Start(t, "--cluster-enabled", "yes")
	keys := []string{"", "key", "123456789", "{user}:1", "{user}:2", "a{b", "{}c", "{}{d}", "a{b}{c}", "}{", "ключ"}
	for n := range 50 {
		keys = append(keys, fmt.Sprintf("oncekey:%064x", n))
	}
	for _, key := range keys {
		want, err := server.Do(t.Context(), "CLUSTER", "KEYSLOT", key)
		if err != nil || want != int64(Slot(key)) {
			t.Errorf("the slot of %q is %d, want %v (%v)", key, Slot(key), want, err)
		}
	}
}
