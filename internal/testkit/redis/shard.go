package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// slotCount is the number of slots of a cluster.
const slotCount = 16384

// Shard is a range of a cluster's slots with its servers.
type Shard struct {
	First, Last int // slots
	Master      *Server
	Replicas    []*Server
}

// Holds reports whether the shard has the key.
func (s Shard) Holds(key string) bool { return s.First <= Slot(key) && Slot(key) <= s.Last }

// Slot returns the cluster slot of a key. If the key has a tag in braces, only the tag counts.
func Slot(key string) int {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	var sum uint16 // CRC-16, in the variant named XMODEM
	for _, b := range []byte(key) {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= 0x1021
			}
		}
	}
	return int(sum) % slotCount
}

// equal compares the masters only, because a node drops and adds replicas at any time.
func (s Shard) equal(other Shard) bool {
	return s.First == other.First && s.Last == other.Last && s.Master == other.Master
}

// agreement returns the shards if all running nodes report the same shards, and their masters run.
func (c *Cluster) agreement(ctx context.Context) ([]Shard, error) {
	var agreed []Shard
	var running []*Server
	for _, node := range c.nodes {
		if node.isGone() {
			continue
		}
		seen, err := c.view(ctx, node)
		if err != nil {
			return nil, err
		}
		if running = append(running, node); agreed == nil {
			agreed = seen
		}
		if !slices.EqualFunc(agreed, seen, Shard.equal) {
			return nil, fmt.Errorf("%s and %s see different masters", running[0].Addr(), node.Addr())
		}
	}
	next := 0
	for _, shard := range agreed {
		if shard.First != next || !slices.Contains(running, shard.Master) {
			return nil, fmt.Errorf("no node serves slot %d", next)
		}
		next = shard.Last + 1
	}
	if next != slotCount {
		return nil, fmt.Errorf("no node serves slot %d", next)
	}
	return agreed, nil
}

// view returns the shards as a node reports them.
func (c *Cluster) view(ctx context.Context, node *Server) ([]Shard, error) {
	state, err := node.fields(ctx, "cluster", "info")
	if err != nil {
		return nil, err
	}
	if state["cluster_state"] != "ok" {
		return nil, fmt.Errorf("%s does not serve: %v", node.Addr(), state)
	}
	ranges, err := send(ctx, node, redis.NewClusterSlotsCmd(ctx, "cluster", "slots"))
	if err != nil {
		return nil, err
	}
	var shards []Shard
	for _, one := range ranges {
		shard, err := c.shard(one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", node.Addr(), err)
		}
		shards = append(shards, shard)
	}
	slices.SortFunc(shards, func(a, b Shard) int { return a.First - b.First })
	return shards, nil
}

// shard is a range of slots with this cluster's nodes, the master first.
func (c *Cluster) shard(slots redis.ClusterSlot) (Shard, error) {
	shard := Shard{First: slots.Start, Last: slots.End}
	for i, found := range slots.Nodes {
		at := slices.IndexFunc(c.nodes, func(node *Server) bool { return node.Addr() == found.Addr })
		switch {
		case at < 0:
			return Shard{}, fmt.Errorf("%s is none of this cluster's nodes", found.Addr)
		case i == 0:
			shard.Master = c.nodes[at]
		default:
			shard.Replicas = append(shard.Replicas, c.nodes[at])
		}
	}
	return shard, nil
}
