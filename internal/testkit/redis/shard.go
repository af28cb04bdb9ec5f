package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	state, err := node.Do(ctx, "CLUSTER", "INFO")
	if err != nil {
		return nil, err
	}
	if text, _ := state.(string); fields(text)["cluster_state"] != "ok" {
		return nil, fmt.Errorf("%s does not serve: %q", node.Addr(), text)
	}
	slots, err := node.Do(ctx, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	ranges, _ := slots.([]any)
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

var errSlots = errors.New("the reply to CLUSTER SLOTS is unreadable")

// shard parses one range of CLUSTER SLOTS: the first and the last slot, the master, the replicas.
func (c *Cluster) shard(answer any) (Shard, error) {
	parts, _ := answer.([]any)
	if len(parts) < 3 {
		return Shard{}, errSlots
	}
	first, firstIs := parts[0].(int64)
	last, lastIs := parts[1].(int64)
	if !firstIs || !lastIs {
		return Shard{}, errSlots
	}
	shard := Shard{First: int(first), Last: int(last)}
	for i, part := range parts[2:] {
		about, _ := part.([]any) // address, port, name and more
		if len(about) < 2 {
			return Shard{}, errSlots
		}
		at := slices.IndexFunc(c.nodes, func(node *Server) bool { return about[1] == int64(node.port) })
		switch {
		case at < 0:
			return Shard{}, fmt.Errorf("port %v is none of this cluster's", about[1])
		case i == 0:
			shard.Master = c.nodes[at]
		default:
			shard.Replicas = append(shard.Replicas, c.nodes[at])
		}
	}
	return shard, nil
}
