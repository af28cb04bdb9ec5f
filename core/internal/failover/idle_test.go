package failover

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
)

// Case 16: a process that had nothing to do during a fail-over knows of the dead
// master alone. Its first request finds the new one, in the tries that a request
// has, if the cluster's client says at once that nobody answers: DialerRetries. As
// go-redis is set by default, it takes all of the request's time to dial.
func TestIdleProcessFindsTheNewMaster(t *testing.T) {
	t.Parallel()
	for name, deploy := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			client := d.client()
			if cluster, is := client.(*redis.ClusterClient); is {
				client = redis.NewClusterClient(&redis.ClusterOptions{
					Addrs: cluster.Options().Addrs, ContextTimeoutEnabled: true, DialerRetries: 1,
				})
				t.Cleanup(func() { client.Close() })
			}
			effects := newLedger()
			idle := effects.start(t, redisstore.New(client))
			idle.expect(t, d.key("warm"), created)
			d.awaitReplication()
			d.victim.Kill()
			d.awaitSuccessor()
			key := d.key("fresh")
			idle.expect(t, key, created)
			effects.expectRuns(t, key, 1)
		})
	}
}
