package redistest

import (
	"slices"
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
	successor := group.Master()
	if !slices.Contains(replicas, successor) {
		t.Errorf("its successor is %s, want one of the replicas", successor.Addr())
	}
	expectAnswer(t, successor, "GET key", "$5", "money")
}
