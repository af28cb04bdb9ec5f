package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSentinelReplacesItsMaster(t *testing.T) {
	t.Parallel()
	group := StartSentinel(t)
	if sentinels := group.SentinelAddrs(); len(sentinels) != 3 {
		t.Fatalf("there are %d sentinels, want 3", len(sentinels))
	}
	master, replicas := group.Master(), group.Replicas()
	if len(replicas) != 2 || slices.Contains(replicas, master) {
		t.Fatalf("there are %d replicas, want 2 beside the master", len(replicas))
	}
	expectAnswer(t, master, "SET key money", "+OK")
	group.AwaitReplication()

	if killed := group.KillMaster(); killed != master {
		t.Fatalf("%s was killed, want the master %s", killed.Addr(), master.Addr())
	}
	successor := group.Promote(master)
	if !slices.Contains(replicas, successor) {
		t.Errorf("the successor is %s, want one of the replicas", successor.Addr())
	}
	expectAnswer(t, successor, "GET key", "$5", "money")
}

// On a busy machine the sentinels treat a slow master as dead. They must not replace it.
func TestSentinelReplacesNoSlowMaster(t *testing.T) {
	t.Parallel()
	group := StartSentinel(t)
	master, replicas := group.Master(), group.Replicas()
	expectAnswer(t, master, "SET key money", "+OK")
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
	expectAnswer(t, master, "GET key", "$5", "money")
}
