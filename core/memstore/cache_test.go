package memstore_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
)

// A full cache forgets the records that would expire first, wherever they are.
func TestCacheForgetsTheEarliest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records, more = 300, 100
		store := memstore.New(memstore.Cache(), memstore.MaxRecords(records))
		for _, n := range rand.New(rand.NewPCG(1, 7)).Perm(records) { // the same each time
			res := result("answer")
			res.Retain = time.Duration(1+n) * time.Minute
			must(t, store.Complete(t.Context(), win(t, store, claim(n)), res))
		}
		for n := range more {
			win(t, store, claim(records+n))
			for old, there := range map[int]bool{n: false, n + 1: true} {
				if record, err := store.Lookup(t.Context(), claim(old).Key); err != nil || (record != nil) != there {
					t.Fatalf("after %d more, record %d is %+v (%v), want it in the store: %t", n+1, old, record, err, there)
				}
			}
		}
	})
}
