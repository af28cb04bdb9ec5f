package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
)

func file(a *archive, id identity, expires time.Duration) {
	d := newDraft(id, true, core.Lease{}, core.Result{State: core.Completed, Status: 200, Body: make([]byte, 2000)})
	a.add(&d, nil, expires)
}

// Records whose tags are the same are told apart, wherever they are moved and
// whichever of them goes first.
func TestTagsMayMeet(t *testing.T) {
	t.Parallel()
	const records = 50
	random := rand.New(rand.NewPCG(1, 3)) // the same each time
	a := newArchive(func(identity) uint32 { return 7 })
	there := map[identity]bool{}
	check := func() {
		t.Helper()
		for n := range records {
			id := identity{byte(n)}
			if p, found := a.find(id); found != there[id] || found && a.at(p).identity() != id {
				t.Fatalf("record %d is found: %t, at %v; it is there: %t", n, found, p, there[id])
			}
		}
	}
	for range 1000 {
		id := identity{byte(random.IntN(records))}
		if p, found := a.find(id); !found {
			file(&a, id, time.Duration(random.IntN(records)))
			there[id] = true
		} else if random.IntN(2) == 0 {
			a.remove(p)
			delete(there, id)
		} else {
			a.empty(p.chunk)
		}
		check()
	}
	for id := range there {
		p, _ := a.find(id)
		a.remove(p)
		delete(there, id)
		check()
	}
	if len(a.index) != 0 || a.held != 0 || a.holes != 0 || len(a.deadlines) != 0 || len(a.vacant) != len(a.chunks) {
		t.Errorf("it holds nothing, and is %+v", a)
	}
}

// Holes are at most a quarter of the archive, and deadlines come in their order.
func TestHolesAreClosed(t *testing.T) {
	t.Parallel()
	const records = 3000
	a := newArchive(func(id identity) uint32 { return uint32(id[0]) })
	for n := range records {
		file(&a, identity{byte(n), byte(n >> 8)}, time.Duration(n*7919%records)) // in disorder
	}
	var order []time.Duration
	for len(a.deadlines) > 0 {
		p, expired := a.expired(records)
		if !expired {
			t.Fatal("nothing has expired")
		}
		order = append(order, a.at(p).expires())
		a.remove(p)
		if a.holes > a.held/maxHoles && a.holes > toleratedHoles {
			t.Fatalf("with %d records left %d of %d bytes are holes", len(a.deadlines), a.holes, a.held)
		}
	}
	if !slices.IsSorted(order) || len(order) != records {
		t.Errorf("%d records went in the order %v", len(order), order)
	}
	if a.held != 0 || a.holes != 0 {
		t.Errorf("an empty archive counts %d bytes and %d of holes", a.held, a.holes)
	}
}
