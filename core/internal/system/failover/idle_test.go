package failover

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
)

// fewDials is how often a first request may dial the dead master. It dials 8 times
// where no machine is busy, and 50 times as go-redis is by default.
const fewDials = 25

// Case 16: a process that was idle during a failover knows only the dead master. Its first
// request finds the new master if the cluster's client reports a refused connection at once:
// DialerRetries. With its defaults, go-redis dials the dead master so often that the
// request's time runs out.
func TestIdleProcessFindsTheNewMaster(t *testing.T) {
	t.Parallel()
	onDeployments(t, func(t *testing.T, d *deployment) {
		client := d.client()
		var dials atomic.Int64 // of the victim
		if cluster, is := client.(*redis.ClusterClient); is {
			client = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: cluster.Options().Addrs, ContextTimeoutEnabled: true, DialerRetries: 1,
				Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
					if address == d.victim.Addr() {
						dials.Add(1)
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				},
			})
			t.Cleanup(func() { client.Close() })
		}
		effects := newLedger()
		idle := effects.start(t, redisstore.New(client))
		idle.expect(t, d.key("warm"), created)
		d.awaitReplication()
		d.victim.Kill()
		d.promote()
		key := d.key("fresh")
		dials.Store(0)
		idle.expect(t, key, created)
		effects.expectRuns(t, key, 1)
		if got := dials.Load(); got > fewDials {
			t.Errorf("the process dialed the dead master %d times, want at most %d", got, fewDials)
		}
	})
}
