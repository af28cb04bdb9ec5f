package redistest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"
)

const (
	// formingTimeout is the nodes' time-out while they get to know each other: it is the pace at which they talk.
	formingTimeout = 1500 * time.Millisecond
	// nodeTimeout is their time-out from then on. On a busy machine a node that is merely slow must not look dead: a
	// master that misses most of the others serves no more.
	nodeTimeout = 10 * time.Second
)

// Cluster is a Redis Cluster. Its nodes may be killed, frozen and restarted like any [Server].
type Cluster struct {
	t            testing.TB
	nodes        []*Server
	replicasEach int
}

// StartCluster runs a new, empty cluster and returns when all of its nodes agree about each other and every replica has
// caught up with its master. A master that dies is replaced by [Cluster.Promote]; there must be at least three masters for
// that, because most of them have to agree.
//
// What Redis would make of a dead shard by default, no shard serves any more until it is replaced, is switched off: tests
// can then tell what a dead master does to its own keys from what it does to others.
func StartCluster(t testing.TB, masters, replicasEach int) *Cluster {
	t.Helper()
	c := &Cluster{t: t, replicasEach: replicasEach}
	for range masters * (1 + replicasEach) {
		c.nodes = append(c.nodes, Start(t, clusterArguments()...))
	}
	c.assignSlots(masters)
	c.introduce()
	c.assignReplicas(masters)
	c.AwaitHealthy()
	return c
}

func clusterArguments() []string {
	return append(quickReplication(),
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", milliseconds(formingTimeout),
		"--cluster-require-full-coverage", "no",
		// A replica stays with its master, takes over when it is told to, and does so however long it was cut off: tests
		// freeze replicas.
		"--cluster-replica-no-failover", "yes",
		"--cluster-allow-replica-migration", "no",
		"--cluster-replica-validity-factor", "0",
	)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// quickReplication are the arguments for servers that do not wait for more replicas before they serve the first one.
func quickReplication() []string {
	return []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
}

func (c *Cluster) assignSlots(masters int) {
	c.t.Helper()
	for i, node := range c.nodes {
		// Equal epochs, as new nodes have them, are settled one collision at a time.
		c.tell(node, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			first, last := i*slotCount/masters, (i+1)*slotCount/masters-1
			c.tell(node, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		}
	}
}

func (c *Cluster) introduce() {
	c.t.Helper()
	for _, node := range c.nodes[1:] {
		c.tell(c.nodes[0], "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.port))
	}
	want := strconv.Itoa(len(c.nodes))
	await(c.t, "the nodes know each other", func(ctx context.Context) error {
		for _, node := range c.nodes {
			answer, err := node.Do(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if text, _ := answer.(string); fields(text)["cluster_known_nodes"] != want {
				return fmt.Errorf("%s does not know all of %s nodes: %q", node.Addr(), want, text)
			}
		}
		return nil
	})
}

func (c *Cluster) assignReplicas(masters int) {
	c.t.Helper()
	for i, replica := range c.nodes[masters:] {
		name, _ := c.tell(c.nodes[i%masters], "CLUSTER", "MYID").(string)
		await(c.t, "a node becomes a replica", func(ctx context.Context) error {
			_, err := replica.Do(ctx, "CLUSTER", "REPLICATE", name)
			return err
		})
	}
}

// tell gives a command that must succeed at once.
func (c *Cluster) tell(node *Server, words ...string) any {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerDeadline)
	defer cancel()
	answer, err := node.Do(ctx, words...)
	if err != nil {
		c.t.Fatalf("redistest: %s: %v", node.Addr(), err)
	}
	return answer
}

// Nodes are all nodes, dead ones too.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addresses(c.nodes) }

func addresses(servers []*Server) []string {
	var all []string
	for _, server := range servers {
		all = append(all, server.Addr())
	}
	return all
}

// Shards waits until all nodes that run agree about who serves which slots, and everything is served, and returns that.
// While a dead master is not replaced they do not. It fails the test when that does not happen.
func (c *Cluster) Shards() []Shard {
	c.t.Helper()
	var shards []Shard
	await(c.t, "the nodes that run serve all slots", func(ctx context.Context) (err error) {
		shards, err = c.agreement(ctx)
		return err
	})
	return shards
}

// Promote has the replica of a master that was killed ask the other masters for their votes, and returns it once all
// nodes that run take it for the new master. It fails the test when that does not happen.
func (c *Cluster) Promote(replica *Server) *Server {
	c.t.Helper()
	await(c.t, "the masters elect the replica", func(ctx context.Context) error {
		state, err := replica.replication(ctx)
		if err != nil || state["role"] == "master" {
			return err
		}
		if _, err := replica.Do(ctx, "CLUSTER", "FAILOVER", "FORCE"); err != nil {
			return err
		}
		return fmt.Errorf("%s is a %s", replica.Addr(), state["role"])
	})
	c.Shards()
	return replica
}

// ShardOf is the one of [Cluster.Shards] in which the key lives.
func (c *Cluster) ShardOf(key string) Shard {
	c.t.Helper()
	for _, shard := range c.Shards() {
		if shard.Holds(key) {
			return shard
		}
	}
	c.t.Fatalf("redistest: no shard holds %q", key)
	return Shard{}
}

// MasterOf is the master of [Cluster.ShardOf].
func (c *Cluster) MasterOf(key string) *Server {
	c.t.Helper()
	return c.ShardOf(key).Master
}

// AwaitReplication returns when the replicas have all that their masters had at the time of the call. All nodes must run.
func (c *Cluster) AwaitReplication() { c.t.Helper(); c.AwaitHealthy() }

// AwaitHealthy returns when all nodes run and agree, and each master has its replicas, which have caught up with it. A
// node that was killed must be restarted before. It fails the test when that does not happen.
func (c *Cluster) AwaitHealthy() {
	c.t.Helper()
	await(c.t, "the cluster is healthy", func(ctx context.Context) error {
		for _, node := range c.nodes {
			shards, err := c.view(ctx, node)
			if err != nil {
				return err
			}
			for _, shard := range shards {
				if len(shard.Replicas) != c.replicasEach {
					return fmt.Errorf("%s sees %d replicas of %s", node.Addr(), len(shard.Replicas), shard.Master.Addr())
				}
			}
		}
		shards, err := c.agreement(ctx)
		if err != nil {
			return err
		}
		for _, shard := range shards {
			if err := caughtUp(ctx, shard.Master, shard.Replicas); err != nil {
				return err
			}
		}
		return nil
	})
	for _, node := range c.nodes {
		c.tell(node, "CONFIG", "SET", "cluster-node-timeout", milliseconds(nodeTimeout))
	}
}
