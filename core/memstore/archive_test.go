package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// newShard is a shard whose records are hashed that way.
func newShard(hash func(identity) uint64) *shard {
	s := new(shard)
	s.init(hash)
	return s
}

func (shard *shard) named(id identity) *name {
	return &name{id: id, complete: true, hash: shard.finished.hash(id)}
}

func (shard *shard) file(id identity, expires time.Duration) {
	n := shard.named(id)
	d := newDraft(n, &storage.Lease{}, &storage.Result{State: storage.Completed, Status: 200, Body: make([]byte, 2000)})
	shard.index.insert(&n.id, n.hash, shard.finished.add(&d, nil, expires))
}

// Records with equal hashes are distinguished, wherever they are moved and in
// whatever order they are removed.
func TestHashesMayMeet(t *testing.T) {
	testkit.NeedsNoRaceDetector(t)
	t.Parallel()
	const records = 50
	random := rand.New(rand.NewPCG(1, 3)) // the same each time
	shard := newShard(func(identity) uint64 { return 7 << 60 })
	a := &shard.finished
	there := map[identity]bool{}
	check := func() {
		t.Helper()
		for n := range records {
			id := identity{byte(n)}
			p := shard.find(shard.named(id))
			if found := p != nowhere; found != there[id] || found && *a.at(p).identity() != id {
				t.Fatalf("record %d is found: %t, at %v; it is there: %t", n, found, p, there[id])
			}
		}
	}
	for range 1000 {
		id := identity{byte(random.IntN(records))}
		if p := shard.find(shard.named(id)); p == nowhere {
			shard.file(id, time.Duration(random.IntN(records)))
			there[id] = true
		} else {
			switch random.IntN(3) {
			case 0:
				a.remove(p)
				delete(there, id)
			case 1:
				d := newTombstone(shard.named(id), &storage.Lease{}, 200)
				a.replace(p, &d, time.Duration(random.IntN(records)))
			default:
				a.empty(p.chunk())
			}
		}
		check()
	}
	for id := range there {
		a.remove(shard.find(shard.named(id)))
		delete(there, id)
		check()
	}
	used := len(shard.index.places) + len(shard.index.others)
	if used != 0 || a.held != 0 || a.holes != 0 || a.deadlines.length != 0 || len(a.vacant) != len(a.chunks)-1 {
		t.Errorf("the empty archive has %d places in use, and is %+v", used, a)
	}
}

// Holes are at most a quarter of the archive, and deadlines come in their order.
func TestHolesAreClosed(t *testing.T) {
	testkit.NeedsNoRaceDetector(t)
	t.Parallel()
	const records = 3000
	shard := newShard(func(id identity) uint64 { return uint64(id[0]) << 40 })
	a := &shard.finished
	for n := range records {
		shard.file(identity{byte(n), byte(n >> 8)}, time.Duration(n*7919%records)) // in disorder
	}
	var order []time.Duration
	for a.deadlines.length > 0 {
		p := a.deadlines.expired(records)
		if p == nowhere {
			t.Fatal("no record has expired")
		}
		order = append(order, a.at(p).expires())
		a.remove(p)
		if a.holes > a.held/maxHoles && a.holes > toleratedHoles {
			t.Fatalf("with %d records left %d of %d bytes are holes", a.deadlines.length, a.holes, a.held)
		}
	}
	if !slices.IsSorted(order) || len(order) != records {
		t.Errorf("%d records went in the order %v", len(order), order)
	}
	if a.held != 0 || a.holes != 0 {
		t.Errorf("an empty archive counts %d bytes and %d of holes", a.held, a.holes)
	}
}
