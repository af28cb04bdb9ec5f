// Package testkit has common steps of the stores' tests. Its folders have the servers and the proxy that they use.
package testkit

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Win claims a key, and expects to get the lease.
func Win(t testing.TB, store storage.Store, c storage.Claim) storage.Lease {
	t.Helper()
	lease, record, err := store.Acquire(t.Context(), c)
	if err != nil || record != nil {
		t.Fatalf("Acquire returned record %+v and error %v, want a lease", record, err)
	}
	return lease
}

// Find claims a key, and expects to get its record.
func Find(t testing.TB, store storage.Store, c storage.Claim) *storage.Record {
	t.Helper()
	lease, record, err := store.Acquire(t.Context(), c)
	if err != nil || record == nil {
		t.Fatalf("Acquire returned lease %+v and error %v, want a record", lease, err)
	}
	return record
}

// Claim is a claim of a key with a lease that outlasts a test.
func Claim(key string) storage.Claim {
	return storage.Claim{Key: key, Token: storage.NewToken(), Fingerprint: "sha256:f", LockTTL: time.Minute, Retain: time.Hour}
}

// TakeOver is a Claim that may take over the key.
func TakeOver(key string) storage.Claim {
	c := Claim(key)
	c.TakeOver = true
	return c
}

// Result is a response.
func Result(body string) storage.Result {
	return storage.Result{
		State: storage.Completed, Status: 201, Body: []byte(body), Retain: time.Hour, Header: storage.Header{{Name: "A", Value: "b"}},
		Sketch: []byte("sketch of " + body),
	}
}

// Finish claims and completes a key, with the key as response body.
func Finish(t testing.TB, store storage.Store, key string) {
	t.Helper()
	Must(t, store.Complete(t.Context(), Win(t, store, Claim(key)), Result(key)))
}

// Eventually waits until a condition on a server is true.
func Eventually(t testing.TB, condition func() bool) {
	t.Helper()
	const patience = time.Minute
	if !Poll(patience, condition) {
		t.Errorf("the condition did not become true within %s", patience) // not Fatal: the caller may be any goroutine
	}
}

// Await waits until a condition is true, and ends the test if that takes long. The goal completes the message "still waiting".
func Await(t testing.TB, goal string, condition func() bool) {
	t.Helper()
	const patience = 2 * time.Minute // servers and programs on a busy machine
	if !Poll(patience, condition) {
		t.Fatalf("still waiting after %s %s", patience, goal)
	}
}

// Poll waits until a condition is true, and reports whether it is in time.
func Poll(patience time.Duration, condition func() bool) bool {
	const pause = 10 * time.Millisecond
	for start := time.Now(); !condition(); <-time.After(pause) {
		if time.Since(start) > patience {
			return false
		}
	}
	return true
}

// Shutter is an engine, or part of a fixture that has one.
type Shutter interface {
	Shutdown(ctx context.Context) error
}

// End waits until an engine has no work left. A test that restarts servers calls it before its end, at which the servers stop
// first.
func End(t testing.TB, s Shutter) {
	t.Helper()
	const patience = 2 * time.Minute // only a failure takes that long
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown returned %v", err)
	}
}

// Abort shuts an engine down without waiting, as if its process was killed.
func Abort(s Shutter) {
	ended, end := context.WithCancel(context.Background())
	end()
	_ = s.Shutdown(ended)
}

// Panics expects calls to panic.
func Panics(t testing.TB, calls map[string]func()) {
	t.Helper()
	for name, call := range calls {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call()
		}()
	}
}

// NeedsNoRaceDetector skips a long test of one goroutine, or of memory, under the race detector, which allocates too: the
// test would find no race.
func NeedsNoRaceDetector(t testing.TB) {
	t.Helper()
	if RaceDetector {
		t.Skip("it needs no race detector")
	}
}

// Must expects no error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Many is the number of keys of a test over a large store: few in a check, and a million
// in `make soak`, which sets ONCEKEY_SOAK.
func Many(few int) int {
	if os.Getenv("ONCEKEY_SOAK") == "" {
		return few
	}
	return 1_000_000
}

// Each runs a test for each row, in parallel.
func Each[Row any](t *testing.T, rows map[string]Row, test func(t *testing.T, row Row)) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, row)
		})
	}
}

// EachInBubble is Each for tests about time, each in a bubble of its own.
func EachInBubble[Row any](t *testing.T, rows map[string]Row, test func(t *testing.T, row Row)) {
	t.Helper()
	Each(t, rows, func(t *testing.T, row Row) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) { test(t, row) })
	})
}
