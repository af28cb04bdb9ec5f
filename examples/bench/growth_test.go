package main

import (
	"context"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// The copies of a record must be records: replays find them, and a sweep removes the
// expired ones.
func TestGrowingTable(t *testing.T) {
	t.Parallel()
	databases, _ := new(suite).sqlDatabases(t.TempDir())
	of, err := databases[0].grow() // without servers the only database is SQLite
	defer of.end()
	if err != nil {
		t.Fatal(err)
	}
	const records = 1000
	large, err := of.fill(t.Context(), records)
	if err != nil {
		t.Fatal(err)
	}
	if large.weight < float64(len(response)) {
		t.Errorf("a record has %v bytes, fewer than its response", large.weight)
	}
	work := storeWork{ctx: t.Context(), store: large.store, workers: 1}
	for _, i := range []int{0, 1, records - 1} {
		if err := work.find(growthClaim(i)); err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	}
	if removed, err := large.sweep(t.Context(), growthSweep); err != nil || removed != records/expiring {
		t.Errorf("a sweep has removed %d records, with error %v; want %d", removed, err, records/expiring)
	}
}

// claimed counts the keys that are claimed at a store.
type claimed struct {
	storage.Store
	keys map[string]int
}

func (c claimed) Acquire(ctx context.Context, r storage.Request) (storage.Lease, *storage.Record, error) {
	c.keys[r.Claim().Key]++
	return c.Store.Acquire(ctx, r)
}

// Each key has one pod, and each pod has keys.
func TestPods(t *testing.T) {
	t.Parallel()
	shared, all := newMemory(), make([]storage.Store, 8)
	for i := range all {
		all[i] = claimed{shared, make(map[string]int)}
	}
	work := storeWork{ctx: t.Context(), store: pods{all[0], all}, workers: 1}
	claims := newClaims(1000)
	if err := work.finish(claims, newResult()); err != nil {
		t.Fatal(err)
	}
	for i, pod := range all {
		if n := len(pod.(claimed).keys); n < 50 {
			t.Errorf("pod %d has claimed %d of %d keys", i, n, len(claims))
		}
	}
}
