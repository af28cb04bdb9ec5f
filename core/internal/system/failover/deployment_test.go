package failover

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// deployment is a Redis that can replace a dead master.
type deployment struct {
	t *testing.T
	// connect returns a new client, like that of a new process.
	connect func() redis.UniversalClient
	// victim is the master that the test kills, replicas are the victim's replicas.
	victim   *redistest.Server
	replicas []*redistest.Server
	// doomed reports whether the victim holds a name.
	doomed func(name string) bool
	// awaitReplication waits until the replicas have all of the victim's writes.
	awaitReplication func()
	// promote makes the servers replace the dead victim, and returns the successor. The
	// servers never do that by themselves.
	promote func() *redistest.Server
}

// deployments start one Redis each.
var deployments = map[string]func(t *testing.T) *deployment{"cluster": newCluster, "sentinel": newSentinel}

// onDeployments runs a test on each of them.
func onDeployments(t *testing.T, test func(t *testing.T, d *deployment)) {
	t.Helper()
	testkit.Each(t, deployments, func(t *testing.T, deploy func(t *testing.T) *deployment) {
		t.Helper()
		test(t, deploy(t))
	})
}

// newCluster starts three masters with one replica each. The first master is the victim.
func newCluster(t *testing.T) *deployment {
	t.Helper()
	takeTurn(t)
	cluster := redistest.StartCluster(t, 3, 1)
	shard := cluster.Shards()[0]
	slot := redistest.Shard{First: shard.First, Last: shard.Last}
	return &deployment{
		t: t, victim: shard.Master, replicas: shard.Replicas, doomed: slot.Holds,
		connect: func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true})
		},
		awaitReplication: cluster.AwaitHealthy,
		promote:          func() *redistest.Server { t.Helper(); return cluster.Promote(shard.Replicas[0]) },
	}
}

// newSentinel starts a persistent master with replicas and sentinels.
func newSentinel(t *testing.T) *deployment {
	t.Helper()
	takeTurn(t)
	group := redistest.StartSentinel(t)
	victim := group.Master()
	return &deployment{
		t: t, victim: victim, replicas: group.Replicas(), doomed: func(string) bool { return true },
		connect: func() redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: redistest.MasterName, SentinelAddrs: group.SentinelAddrs(), ContextTimeoutEnabled: true,
			})
		},
		awaitReplication: group.AwaitReplication,
		promote:          func() *redistest.Server { t.Helper(); return group.Promote(victim) },
	}
}

// client returns a client that is closed after the test.
func (d *deployment) client() redis.UniversalClient {
	client := d.connect()
	d.t.Cleanup(func() { client.Close() })
	return client
}

// nameOf is the name in Redis of an idempotency key's record.
func nameOf(key string) string { return redisstore.DefaultPrefix + storageKey(key) }

// loseReplication cuts the victim's replicas off. Freezing the replicas is not enough: the
// victim's writes would wait in their sockets, and the replicas would read the writes before
// the takeover. A cut connection carries no data, and a frozen replica opens no new one.
func (d *deployment) loseReplication() {
	d.t.Helper()
	for _, replica := range d.replicas {
		replica.Pause()
	}
	d.ask(d.victim, "CLIENT", "KILL", "TYPE", "replica")
	testkit.Await(d.t, "for the replicas to be cut off", func() bool {
		about, _ := d.ask(d.victim, "INFO", "replication").(string)
		return strings.Contains(about, "connected_slaves:0\r\n")
	})
}

// replaceVictim kills the victim, resumes its replicas, and returns the successor.
func (d *deployment) replaceVictim() *redistest.Server {
	d.t.Helper()
	d.victim.Kill()
	for _, replica := range d.replicas {
		replica.Resume()
	}
	return d.promote()
}

// awaitReplicas waits until the successor has as many replicas as the victim had.
func (d *deployment) awaitReplicas(successor *redistest.Server) {
	d.t.Helper()
	testkit.Await(d.t, "for the replicas of the new master", func() bool {
		about, _ := d.ask(successor, "INFO", "replication").(string)
		return strings.Count(about, "state=online") == len(d.replicas)
	})
}

// expectKnown compares whether a server has a record for an idempotency key.
func (d *deployment) expectKnown(server *redistest.Server, key string, want bool) {
	d.t.Helper()
	if known := d.knows(server, key); known != want {
		d.t.Fatalf("%s is known to %s: %t, want %t", key, server.Addr(), known, want)
	}
}

// knows reports whether a server has a record for an idempotency key.
func (d *deployment) knows(server *redistest.Server, key string) bool {
	d.t.Helper()
	return d.ask(server, "EXISTS", nameOf(key)) == int64(1)
}

func (d *deployment) ask(server *redistest.Server, words ...string) any {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), service.Patience)
	defer cancel()
	answer, err := server.Do(ctx, words...)
	testkit.Must(d.t, err)
	return answer
}

// key returns an idempotency key that begins with name and whose record the victim holds.
func (d *deployment) key(name string) string { return d.keys(name, true)() }

// keys returns a generator of such keys, all different. If doomed is false, another master
// holds their records.
func (d *deployment) keys(name string, doomed bool) func() string {
	next := 0
	return func() string {
		for {
			next++
			if key := fmt.Sprintf("%s-%d", name, next); d.doomed(nameOf(key)) == doomed {
				return key
			}
		}
	}
}

func TestMain(m *testing.M) { service.Main(postgrestest.Main(m)) }

// heavy bounds the concurrent tests with half a dozen servers each. With more of them, busy
// servers would look dead.
var heavy = make(chan struct{}, 2)

// takeTurn waits until the test may start its servers. They are stopped before the next
// test's turn.
func takeTurn(t *testing.T) {
	t.Helper()
	heavy <- struct{}{}
	t.Cleanup(func() { <-heavy })
}
