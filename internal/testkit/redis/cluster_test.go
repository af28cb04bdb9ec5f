package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// expectReplicas fails the test if one of the servers becomes a master within the usual time of a failover.
func expectReplicas(t *testing.T, servers []*Server) {
	t.Helper()
	testkit.Poll(3*time.Second, func() bool {
		for _, server := range servers {
			if state, err := server.replication(t.Context()); err != nil || state["role"] != "slave" {
				t.Fatalf("%s is a %s (%v), want a replica", server.Addr(), state["role"], err)
			}
		}
		return false
	})
}

// Slot agrees with CLUSTER KEYSLOT.
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

// On a busy machine the nodes treat a slow master as dead. They must not replace it.
func TestClusterReplacesNoSlowMaster(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t, 3, 1)
	for _, node := range cluster.nodes {
		cluster.tell(node, "CONFIG", "SET", "cluster-node-timeout", milliseconds(formingTimeout))
	}
	shard := cluster.ShardOf("key")
	master := shard.Master
	has(t, master, "OK", "SET", "key", "money")

	master.Pause()
	await(t, "the other nodes take the master for dead", func(ctx context.Context) error {
		for _, node := range cluster.nodes {
			if node == master {
				continue
			}
			answer, err := node.Do(ctx, "CLUSTER", "NODES")
			if err != nil {
				return err
			}
			if text, _ := answer.(string); !strings.Contains(text, "master,fail,") {
				return fmt.Errorf("%s sees no dead master: %q", node.Addr(), text)
			}
		}
		return nil
	})
	expectReplicas(t, shard.Replicas)
	master.Resume()
	if again := cluster.ShardOf("key").Master; again != master {
		t.Errorf("the master is %s, want %s still", again.Addr(), master.Addr())
	}
	has(t, master, "money", "GET", "key")
}

// On a busy machine the sentinels treat a slow master as dead. They must not replace it.
func TestSentinelReplacesNoSlowMaster(t *testing.T) {
	t.Parallel()
	group := StartSentinel(t)
	master, replicas := group.Master(), group.Replicas()
	has(t, master, "OK", "SET", "key", "money")
	group.AwaitReplication()

	master.Pause()
	await(t, "the sentinels take the master for dead", func(ctx context.Context) error {
		for _, sentinel := range group.sentinels {
			state, err := sentinel.masterState(ctx)
			if err != nil {
				return err
			}
			if flags := state["flags"]; !strings.Contains(flags, "s_down") {
				return fmt.Errorf("%s sees %q", sentinel.Addr(), flags)
			}
		}
		return nil
	})
	expectReplicas(t, replicas)
	master.Resume()
	if again := group.Master(); again != master {
		t.Errorf("the master is %s, want %s still", again.Addr(), master.Addr())
	}
	has(t, master, "money", "GET", "key")
}
