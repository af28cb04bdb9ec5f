package failover

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	redistest "github.com/oncekey/oncekey/core/internal/testkit/redis"
	"github.com/oncekey/oncekey/core/redisstore"
)

// deployment is a Redis that replaces a master which dies.
type deployment struct {
	t *testing.T
	// connect returns a new client, as a process of its own would have.
	connect func() redis.UniversalClient
	// victim is the master that is going to die, replicas are its own.
	victim   *redistest.Server
	replicas []*redistest.Server
	// doomed reports whether a value is in the victim's keeping.
	doomed func(name string) bool
	// awaitReplication returns when the replicas have all that the victim has.
	awaitReplication func()
	// promote has the servers replace the victim, which must be dead, and returns
	// its successor. They never do that by themselves.
	promote func() *redistest.Server
}

// deployments start a Redis each.
var deployments = map[string]func(t *testing.T) *deployment{"cluster": newCluster, "sentinel": newSentinel}

// newCluster starts three masters with a replica each: the first one shall die.
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
		awaitReplication: cluster.AwaitReplication,
		promote:          func() *redistest.Server { t.Helper(); return cluster.Promote(shard.Replicas[0]) },
	}
}

// newSentinel starts a master that keeps everything, its replicas and their
// sentinels.
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

// nameOf is the name in Redis of what is kept for an idempotency key.
func nameOf(key string) string { return redisstore.DefaultPrefix + storageKey(key) }

// loseReplication has the victim's replicas hear nothing more of it. To freeze
// them is not enough: what the victim writes would wait in their sockets, and
// they would read it before they take over. A connection that was cut carries
// nothing, and those who are frozen open no new one.
func (d *deployment) loseReplication() {
	d.t.Helper()
	for _, replica := range d.replicas {
		replica.Pause()
	}
	d.ask(d.victim, "CLIENT", "KILL", "TYPE", "replica")
	eventually(d.t, "for the replicas to be cut off", func() bool {
		about, _ := d.ask(d.victim, "INFO", "replication").(string)
		return strings.Contains(about, "connected_slaves:0\r\n")
	})
}

// replaceVictim kills the victim and lets its replicas go on, and returns the
// one that has taken over.
func (d *deployment) replaceVictim() *redistest.Server {
	d.t.Helper()
	d.victim.Kill()
	for _, replica := range d.replicas {
		replica.Resume()
	}
	return d.promote()
}

// awaitReplicas returns when the victim's successor has as many replicas as the
// victim had.
func (d *deployment) awaitReplicas(successor *redistest.Server) {
	d.t.Helper()
	eventually(d.t, "for the replicas of the new master", func() bool {
		about, _ := d.ask(successor, "INFO", "replication").(string)
		return strings.Count(about, "state=online") == len(d.replicas)
	})
}

// expectKnown compares whether a server has something for an idempotency key.
func (d *deployment) expectKnown(server *redistest.Server, key string, want bool) {
	d.t.Helper()
	if known := d.knows(server, key); known != want {
		d.t.Fatalf("%s is known to %s: %t, want %t", key, server.Addr(), known, want)
	}
}

// knows reports whether a server has something for an idempotency key.
func (d *deployment) knows(server *redistest.Server, key string) bool {
	d.t.Helper()
	return d.ask(server, "EXISTS", nameOf(key)) == int64(1)
}

func (d *deployment) ask(server *redistest.Server, words ...string) any {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	answer, err := server.Do(ctx, words...)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer
}

// key returns an idempotency key that begins with name and whose record is in
// the victim's keeping.
func (d *deployment) key(name string) string { return d.keys(name, true)() }

// keys returns what makes such keys, all different; or, unless doomed, such as
// are in another master's keeping.
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
