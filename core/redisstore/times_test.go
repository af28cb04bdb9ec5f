package redisstore_test

import (
	"testing"
	"time"

	redistest "github.com/oncekey/oncekey/core/internal/testkit/redis"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
)

// The times of a record are counted back from its end, by each method in the same
// way.
func TestTimesOfRecords(t *testing.T) {
	t.Parallel()
	store := redisstore.New(connect(t, redistest.Start(t), nil))
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
			if age := written.Sub(r.Created); age != lease.Age {
				t.Errorf("%s: the record of %s was written %s after the claim, want %s", state, by, age, lease.Age)
			}
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

// A replay reads no time to live. The times are by the clock of the writer then, or
// unknown.
func TestTimesOfReplays(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	store := redisstore.New(rdb)
	value := func(at, retain string) string {
		return `{"token":"abcd0000000000000000000000000000","state":"completed","v":1,"attempt":2,"fingerprint":"sha256:f",` +
			retain + `"age_ms":1000,"at":"` + at + `","status":201,"size":0}` + "\n"
	}
	must(t, rdb.Set(t.Context(), "oncekey:key", value("2026-01-02T15:04:05.5Z", `"retain_ms":60000,`), time.Hour).Err())
	written := time.Date(2026, 1, 2, 15, 4, 5, 5e8, time.UTC)
	r := find(t, store, claim("key"))
	if !r.Finished.Equal(written) || !r.Created.Equal(written.Add(-time.Second)) || !r.Expires.Equal(written.Add(time.Minute)) {
		t.Errorf("the record is %+v, want the times of its line", r)
	}
	for at, retain := range map[string]string{"yesterday": `"retain_ms":60000,`, "2026-01-02T15:04:05Z": ""} {
		must(t, rdb.Set(t.Context(), "oncekey:key", value(at, retain), time.Hour).Err())
		if r := find(t, store, claim("key")); !r.Finished.IsZero() || !r.Created.IsZero() || !r.Expires.IsZero() {
			t.Errorf("at %s the record is %+v, want no times", at, r)
		}
	}
}

// A result of a version before has no durations, and no origin.
func TestTimesOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	store := redisstore.New(rdb)
	before := time.Now()
	must(t, rdb.Set(t.Context(), "oncekey:key", `{"token":"abcd0000000000000000000000000000","state":"completed","v":1,"attempt":2,`+
		`"fingerprint":"sha256:f","at":"2026-01-02T15:04:05Z","status":201,"size":3}`+"\n{}\n", time.Hour).Err())
	look := func() *storage.Record {
		r, err := store.Lookup(t.Context(), "key")
		must(t, err)
		return r
	}
	r := look()
	written := r.Expires.Add(-time.Hour)
	if written.Before(before.Add(-2*time.Millisecond)) || written.After(time.Now()) || !r.Created.IsZero() || !r.Finished.IsZero() || r.Origin != (storage.Origin{}) {
		t.Errorf("the record is %+v, want only the time when it expires", r)
	}
	must(t, rdb.Persist(t.Context(), "oncekey:key").Err())
	if r := look(); !r.Expires.IsZero() {
		t.Errorf("the record expires at %s, want never", r.Expires)
	}
}
