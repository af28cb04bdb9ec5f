package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

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
