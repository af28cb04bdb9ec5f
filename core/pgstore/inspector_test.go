package pgstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// keyOf is the n-th key that fill writes.
func keyOf(prefix string, n int) string { return prefix + strconv.Itoa(n) }

func TestLookup(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finish(t, store, "completed")
	finish(t, store, "expired")
	expire(t, pool, "expired")
	win(t, store, claim("abandoned"))
	abandon(t, pool, "abandoned")
	tombstone(t, store, "released")
	look := func(key string) *storage.Record {
		record, err := store.Lookup(t.Context(), key)
		must(t, err)
		return record
	}
	if r := look("completed"); r == nil || string(r.Body) != "completed" || r.Status != 201 || len(r.Header) != 1 {
		t.Errorf("the completed record is %+v", r)
	}
	if r := look("abandoned"); r == nil || !r.Abandoned() || r.Attempt != 1 {
		t.Errorf("the abandoned record is %+v", r)
	}
	for _, key := range []string{"missing", "expired", "released"} {
		if r := look(key); r != nil {
			t.Errorf("the %s record is %+v, want none", key, r)
		}
	}
}

// tombstone leaves only the attempt number of a key, 2.
func tombstone(t *testing.T, store *pgstore.Store, key string) {
	t.Helper()
	c := claim(key)
	lease := storage.Lease{Claim: c, Attempt: 2, TookOver: true}
	must(t, store.Extend(t.Context(), lease, c.TTL))
	must(t, store.Release(t.Context(), lease))
}

func TestListGoesThroughAllPages(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	fill(t, pool, "completed", 25)
	fill(t, pool, "expired", 5)
	expire(t, pool, "expired%")
	for n := range 3 {
		win(t, store, claim(fmt.Sprintf("running%d", n)))
		tombstone(t, store, fmt.Sprintf("released%d", n))
	}
	for state, want := range map[storage.State]int{storage.Completed: 25, storage.InProgress: 3, storage.Failed: 0} {
		seen := listAll(t, store, state, 10)
		if len(seen) != want {
			t.Errorf("%d records are %s, want %d", len(seen), state, want)
		}
		for key, record := range seen {
			if record.State != state {
				t.Errorf("%s is %s, want %s", key, record.State, state)
			}
		}
	}
}

// listAll follows the cursor to its end, and fails when a key comes twice.
func listAll(t *testing.T, store *pgstore.Store, state storage.State, limit int) map[string]*storage.Record {
	t.Helper()
	seen, cursor := map[string]*storage.Record{}, ""
	for {
		page, err := store.List(t.Context(), storage.Filter{States: []storage.State{state}}, storage.Page{Cursor: cursor, Limit: limit})
		must(t, err)
		if len(page.Entries) > limit {
			t.Fatalf("a page has %d records, want at most %d", len(page.Entries), limit)
		}
		for _, entry := range page.Entries {
			if seen[entry.Key] != nil {
				t.Fatalf("%s was listed twice", entry.Key)
			}
			seen[entry.Key] = entry.Record
		}
		if page.Next == "" {
			return seen
		}
		cursor = page.Next
	}
}

// One page looks at a bounded number of keys, however few of them it wants.
func TestListOfFewAmongMany(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	fill(t, pool, "a", 3000)
	win(t, store, claim("z"))
	page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Limit: 10, LookAt: 2900})
	must(t, err)
	if len(page.Entries) != 0 || page.LookedAt != 2900 || page.Next == "" {
		t.Errorf("the first page has %d records and Next %q, want none, and a cursor", len(page.Entries), page.Next)
	}
	if seen := listAll(t, store, storage.InProgress, 10); len(seen) != 1 || seen["z"] == nil {
		t.Errorf("the list is %v, want z", seen)
	}
}

func TestListSkipsUnreadableRows(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	fill(t, pool, "key", 5)
	execute(t, pool, `UPDATE oncekey.records SET status = 7 WHERE key = 'key2'`)
	page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10})
	if err != nil || len(page.Entries) != 4 {
		t.Errorf("beside it there are %d records and %v, want 4", len(page.Entries), err)
	}
	for _, entry := range page.Entries {
		if entry.Key == "key2" || entry.Body != nil || entry.Header != nil {
			t.Errorf("List returned %q with its response: %+v", entry.Key, entry.Record)
		}
	}
	for _, limit := range []int{-1, 0, 1001} {
		if _, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: limit}); err == nil || !strings.Contains(err.Error(), "1000") {
			t.Errorf("List of %d returned %v, want the valid values", limit, err)
		}
	}
	if _, err := store.List(t.Context(), storage.Filter{States: []storage.State{0}}, storage.Page{Limit: 10}); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("List of no state returned %v, want an error", err)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finish(t, store, "completed")
	finish(t, store, "expired")
	expire(t, pool, "expired")
	tombstone(t, store, "released")
	if there, err := store.Forget(t.Context(), "completed", "please"); there || err == nil {
		t.Errorf("Forget without RerunIsSafe returned %t and %v, want an error", there, err)
	}
	for key, want := range map[string]bool{"completed": true, "expired": false, "released": false, "missing": false} {
		there, err := store.Forget(t.Context(), key, storage.RerunIsSafe)
		if there != want || err != nil {
			t.Errorf("Forget of the %s key returned %t and %v, want %t", key, there, err, want)
		}
	}
	if lease := win(t, store, claim("completed")); lease.Attempt != 1 {
		t.Errorf("the forgotten key was claimed as attempt %d, want 1", lease.Attempt)
	}
}

func TestInspectorWithoutTable(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	execute(t, pool, `DROP SCHEMA oncekey CASCADE`)
	_, lookup := store.Lookup(t.Context(), "key")
	_, list := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1})
	_, forget := store.Forget(t.Context(), "key", storage.RerunIsSafe)
	for _, err := range []error{lookup, list, forget} {
		if err == nil || !strings.Contains(err.Error(), "pgstore.Migrate") {
			t.Errorf("the error is %v, want the remedy", err)
		}
	}
}
