package redistest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

const (
	// formingTimeout is the nodes' time-out while the cluster forms, and sets the pace of their messages.
	formingTimeout = 1500 * time.Millisecond
	// nodeTimeout is the time-out after that. On a busy machine a slow node must not look dead: a master that misses most of
	// the others stops serving.
	nodeTimeout = 10 * time.Second
)

// Cluster is a Redis Cluster. Its nodes may be killed, frozen and restarted like any [Server].
type Cluster struct {
	t            testing.TB
	nodes        []*Server
	replicasEach int
}

// StartCluster runs a new, empty cluster. It returns when all nodes agree and every replica has caught up with its master.
// [Cluster.Promote] replaces a dead master. That needs at least three masters, because a majority has to agree.
//
// By default Redis stops all shards while one shard is dead. That default is switched off, so that tests can compare the dead
// master's keys with the other masters' keys.
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
		// A replica stays with its master and takes over only on request, even after a long partition, because tests freeze
		// replicas.
		"--cluster-replica-no-failover", "yes",
		"--cluster-allow-replica-migration", "no",
		"--cluster-replica-validity-factor", "0",
	)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// quickReplication are arguments for masters that sync the first replica without waiting for more replicas.
func quickReplication() []string {
	return []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
}

func (c *Cluster) assignSlots(masters int) {
	c.t.Helper()
	for i, node := range c.nodes {
		// New nodes have equal epochs. Redis would resolve one collision at a time.
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
			state, err := node.fields(ctx, "cluster", "info")
			if err != nil {
				return err
			}
			if state["cluster_known_nodes"] != want {
				return fmt.Errorf("%s does not know all of %s nodes: %v", node.Addr(), want, state)
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

// tell sends a command that must succeed at once.
func (c *Cluster) tell(node *Server, words ...string) (answer any) {
	c.t.Helper()
	err := serverproc.Probe(func(ctx context.Context) (err error) {
		answer, err = node.Do(ctx, words...)
		return err
	})
	if err != nil {
		c.t.Fatalf("redistest: %s: %v", node.Addr(), err)
	}
	return answer
}

// Nodes returns all nodes, including dead ones.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addresses(c.nodes) }

func addresses(servers []*Server) []string {
	var all []string
	for _, server := range servers {
		all = append(all, server.Addr())
	}
	return all
}

// Shards returns the shards after all running nodes agree and every slot is served. The nodes do not agree while a dead
// master is not replaced. Without agreement the test fails.
func (c *Cluster) Shards() []Shard {
	c.t.Helper()
	var shards []Shard
	await(c.t, "the nodes that run serve all slots", func(ctx context.Context) (err error) {
		shards, err = c.agreement(ctx)
		return err
	})
	return shards
}

// Promote makes the replica of a killed master ask the other masters for their votes. It returns the replica when all
// running nodes treat it as the new master. Otherwise the test fails.
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

// ShardOf returns the shard of [Cluster.Shards] with the key.
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

// AwaitHealthy waits until all nodes run and agree, and all replicas have caught up with their masters. Restart a killed
// node first. The test fails after the deadline.
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
