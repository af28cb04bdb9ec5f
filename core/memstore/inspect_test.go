package memstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A record that stays is listed exactly once, and no record twice, while other
// records come, go and are settled.
func TestListUnderTraffic(t *testing.T) {
	t.Parallel()
	const staying, passing = 5_000, 5_000
	store := memstore.New()
	for n := range staying {
		must(t, store.Complete(t.Context(), win(t, store, claim(n)), result("answer")))
	}
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	for caller := range 4 {
		traffic.Go(func() {
			for n := caller; ctx.Err() == nil; n += 4 {
				lease, record, err := store.Acquire(t.Context(), claim(staying+n%passing))
				switch {
				case err != nil:
					t.Error(err)
				case record != nil:
					_, err = store.Forget(t.Context(), claim(staying+n%passing).Key, storage.RerunIsSafe)
				case n%3 == 0:
					err = store.Release(t.Context(), lease)
				default:
					err = store.Complete(t.Context(), lease, result("passing"))
				}
				if err != nil && !errors.Is(err, storage.ErrLeaseLost) {
					t.Error(err)
				}
			}
		})
	}
	for _, limit := range []int{1000, 100} {
		listed := listAll(t, store, storage.Completed, limit)
		for n := range staying {
			if listed[claim(n).Key] == nil {
				t.Fatalf("in pages of %d key %d is not listed", limit, n)
			}
		}
	}
	stop()
	traffic.Wait()
}

func TestListRefusesCursors(t *testing.T) {
	t.Parallel()
	store, other := memstore.New(), memstore.New()
	cursorOf := func(store *memstore.Store) string {
		for n := range 10 {
			win(t, store, claim(n))
		}
		listing, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Limit: 1})
		must(t, err)
		return listing.Next
	}
	good := cursorOf(store)
	if _, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Cursor: good, Limit: 1}); err != nil {
		t.Errorf("List with its own cursor returned %v", err)
	}
	for _, wrong := range []string{"x", good[1:], good + "0", cursorOf(other), strings.Repeat("long", 1000)} {
		if _, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Cursor: wrong, Limit: 1}); err == nil || !strings.Contains(err.Error(), "cursor") || len(err.Error()) > 300 {
			t.Errorf("List with the cursor %.20q returned %v, want an error", wrong, err)
		}
	}
}

func TestListOfOddKeys(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	keys := []string{"", "k", "\x00\xff", "\xff", strings.Repeat("long", 1000)}
	for _, key := range keys {
		c := claim(0)
		c.Key = key
		win(t, store, c)
	}
	for _, limit := range []int{1, 3, 5, 1000} {
		testkit.Equal(t, len(listAll(t, store, storage.InProgress, limit)), len(keys), "records in pages of %d", limit)
	}
}

// A forgotten record makes space for another; a record that is only read stays.
func TestForgetMakesSpace(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.MaxRecords(1))
	for n := range 3 {
		win(t, store, claim(n))
		if r, err := store.Lookup(t.Context(), claim(n).Key); err != nil || r == nil {
			t.Errorf("Lookup returned %+v and %v, want the record", r, err)
		}
		if there, err := store.Forget(t.Context(), claim(n).Key, storage.RerunIsSafe); err != nil || !there {
			t.Errorf("Forget returned %t and %v, want true", there, err)
		}
	}
	testkit.Equal(t, store.Len(), 0, "records")
}
