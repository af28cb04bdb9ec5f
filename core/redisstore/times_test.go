package redisstore_test

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// The times of a record are counted back from its end, by each method in the same
// way.
func TestTimesOfRecords(t *testing.T) {
	t.Parallel()
	_, store := start(t)
	c := claim("key")
	c.Origin = storage.Origin{Route: "POST /payments", Holder: "pod-1", KeyHash: "9c56cc51b374c3ba", Trace: "4bf9-00f0"}
	before := time.Now()
	lease := win(t, store, c)
	check := func(state storage.State, retain time.Duration) {
		t.Helper()
		found, err := store.Lookup(t.Context(), "key")
		must(t, err)
		for by, r := range map[string]*storage.Record{
			"Acquire": find(t, store, claim("key")), "Lookup": found, "List": listAll(t, store, state, 10)["key"],
		} {
			written := r.Expires.Add(-retain)
			if r.Origin != c.Origin || written.Before(before.Add(-2*time.Millisecond)) || written.After(time.Now()) {
				t.Errorf("%s: the record of %s is %+v, want it written after %s", state, by, r, before)
			}
			testkit.Equal(t, written.Sub(r.Created), lease.Age, "%s: the age of the record of %s", state, by)
			if state != storage.InProgress && !r.Finished.Equal(written) || state == storage.InProgress && !r.Finished.IsZero() {
				t.Errorf("%s: the record of %s was finished at %s, want %s", state, by, r.Finished, written)
			}
		}
	}
	check(storage.InProgress, c.Retain)
	lease.Age = 90 * time.Second
	before = time.Now()
	must(t, store.Extend(t.Context(), lease, time.Minute))
	check(storage.InProgress, c.Retain)
	lease.Age = 2 * time.Minute
	before = time.Now()
	must(t, store.Complete(t.Context(), lease, storage.Result{State: storage.Failed, Status: 400, Retain: 48 * time.Hour}))
	check(storage.Failed, 48*time.Hour)
}

// A replay reads no time to live. The times are by the clock of the writer then.
func TestTimesOfReplays(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	lease := win(t, store, claim("key"))
	lease.Age = time.Second
	res := result("answer")
	res.Retain = time.Minute
	before := time.Now()
	must(t, store.Complete(t.Context(), lease, res))
	after := time.Now()
	must(t, rdb.PExpire(t.Context(), "oncekey:key", time.Hour).Err())
	r := find(t, store, claim("key"))
	if r.Finished.Before(before.Round(0)) || r.Finished.After(after) || !r.Created.Equal(r.Finished.Add(-time.Second)) || !r.Expires.Equal(r.Finished.Add(time.Minute)) {
		t.Errorf("the record is %+v, want the times of its writer, between %s and %s", r, before, after)
	}
	must(t, rdb.Persist(t.Context(), "oncekey:key").Err())
	r, err := store.Lookup(t.Context(), "key")
	must(t, err)
	if !r.Expires.IsZero() {
		t.Errorf("the record expires at %s, want never", r.Expires)
	}
}
