package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// WinAttempt claims a key, and expects to get the lease of an attempt.
func WinAttempt(t testing.TB, store storage.Store, c storage.Claim, attempt uint64, tookOver bool) {
	t.Helper()
	if lease := Win(t, store, c); lease.Attempt != attempt || lease.TookOver != tookOver {
		t.Errorf("it got attempt %d with TookOver %t, want %d with %t", lease.Attempt, lease.TookOver, attempt, tookOver)
	}
}

// Refused claims a key, and expects an error of a kind.
func Refused(t testing.TB, store storage.Store, c storage.Claim, want error) {
	t.Helper()
	if lease, record, err := store.Acquire(t.Context(), c); !errors.Is(err, want) {
		t.Errorf("Acquire returned %+v, %+v and %v, want the error %v", lease, record, err, want)
	}
}

// Fails expects an error that wraps another one, unless that is nil, and has texts.
func Fails(t testing.TB, call string, err, want error, texts ...string) {
	t.Helper()
	good := err != nil && (want == nil || errors.Is(err, want))
	for _, text := range texts {
		good = good && strings.Contains(err.Error(), text)
	}
	if !good {
		t.Errorf("%s returned %v, want an error that is %v, with %q", call, err, want, texts)
	}
}

// Replays claims a key, and expects to get a response with that body.
func Replays(t testing.TB, store storage.Store, c storage.Claim, body string) {
	t.Helper()
	if r := Find(t, store, c); r.State != storage.Completed || string(r.Body) != body {
		t.Errorf("the record is %+v, want the response %.80q", r, body)
	}
}

// IsRunning expects a key to be in progress.
func IsRunning(t testing.TB, store storage.Store, key string) {
	t.Helper()
	if r := Find(t, store, Claim(key)); r.State != storage.InProgress || r.Abandoned() {
		t.Errorf("the record is %+v, want it in progress", r)
	}
}

// Concurrently makes calls at once, and waits for them.
func Concurrently(calls int, call func(n int)) {
	var running sync.WaitGroup
	for n := range calls {
		running.Go(func() { call(n) })
	}
	running.Wait()
}

// Race lets callers claim a key at once, and expects one to get it as an attempt.
func Race(t testing.TB, store storage.Store, callers int, by func(key string) storage.Claim, attempt uint64) {
	t.Helper()
	var winners atomic.Int32
	Concurrently(callers, func(int) {
		lease, record, err := store.Acquire(t.Context(), by("raced"))
		if err != nil {
			t.Error(err)
		}
		if record == nil && lease.Attempt == attempt {
			winners.Add(1)
		}
	})
	if winners.Load() != 1 {
		t.Errorf("%d callers got the lease, want 1", winners.Load())
	}
}

// Digested gives a claim the digest of a request, and a fingerprint that only this claim has.
func Digested(c storage.Claim, request string) storage.Claim {
	c.Digest, c.Fingerprint = fingerprint.Digest(fingerprint.Request{Path: request}), c.Token.String()
	return c
}

// Originated gives a claim an origin.
func Originated(c storage.Claim) storage.Claim {
	c.Origin = storage.Origin{Route: "POST /payments/{id}", Holder: "pod 7", KeyHash: "0123456789abcdef", Trace: "4bf92f-00f067", Program: "1f00ba42"}
	return c
}

// ListAll lists the records in a state, by pages. Each record is listed once, without its response.
func ListAll(t testing.TB, store storage.Inspector, state storage.State, limit int) map[string]*storage.Record {
	t.Helper()
	all, cursor := map[string]*storage.Record{}, ""
	for {
		page, err := store.List(t.Context(), storage.Filter{States: []storage.State{state}}, storage.Page{Cursor: cursor, Limit: limit})
		Must(t, err)
		if len(page.Entries) > limit {
			t.Fatalf("a page has %d records, want at most %d", len(page.Entries), limit)
		}
		for _, entry := range page.Entries {
			if all[entry.Key] != nil || entry.State != state || entry.Body != nil || entry.Header != nil {
				t.Fatalf("%s is listed as %+v, after %+v", entry.Key, entry.Record, all[entry.Key])
			}
			all[entry.Key] = entry.Record
		}
		if page.Next == "" {
			return all
		}
		cursor = page.Next
	}
}

// Durable is a store in a database.
type Durable interface {
	Inspectable
	storage.Checker
	Sweep(ctx context.Context, batch int) (removed int64, err error)
}

// GoThroughLife makes each call of a store, for one key.
func GoThroughLife(t testing.TB, store Durable, key string) {
	t.Helper()
	first := Win(t, store, Digested(Claim(key), key))
	first.Steps = "ü'\\"
	Must(t, store.Extend(t.Context(), first, time.Minute))
	Must(t, store.Extend(t.Context(), first, time.Minute))
	Must(t, store.Extend(t.Context(), first, 0))
	second := Win(t, store, Digested(TakeOver(key), key))
	if running := Find(t, store, Claim(key)); second.Attempt != 2 || !second.TookOver || second.Steps != first.Steps || running.Steps != first.Steps {
		t.Errorf("the lease is %+v and the record %+v, want the second attempt with the steps of the first", second, running)
	}
	Must(t, store.Release(t.Context(), second))
	third := Win(t, store, Originated(Digested(Claim(key), key)))
	res := Result("\x00\xff'\\")
	res.Header = storage.Header{{Name: "A", Value: "'\x00\xff"}, {Op: storage.Delete, Name: `B"\`}}
	res.Sketch = []byte("\xff'\\\x00")
	Must(t, store.Complete(t.Context(), third, res))
	Must(t, store.Complete(t.Context(), third, res))
	r := Find(t, store, Claim(key))
	same := bytes.Equal(r.Body, res.Body) && slices.Equal(r.Header, res.Header) && bytes.Equal(r.Sketch, res.Sketch)
	if !same || r.Attempt != 3 || r.Origin != third.Origin || time.Since(r.Created).Abs() > time.Minute {
		t.Errorf("the record is %+v, want attempt 3, claimed a moment ago by %+v, with %+v", r, third.Origin, res)
	}
	inspects(t, store, key)
}

// inspects expects the record of a finished key, in each way to see it, and forgets it.
func inspects(t testing.TB, store Durable, key string) {
	t.Helper()
	Must(t, store.Check(t.Context()))
	_, err := store.Sweep(t.Context(), 10)
	Must(t, err)
	r, err := store.Lookup(t.Context(), key)
	Must(t, err)
	page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1000})
	Must(t, err)
	if r == nil || !slices.ContainsFunc(page.Entries, func(e storage.Entry) bool { return e.Key == key }) {
		t.Errorf("Lookup returned %+v, and List %d records, want that of %s", r, len(page.Entries), key)
	}
	if there, err := store.Forget(t.Context(), key, storage.RerunIsSafe); err != nil || !there {
		t.Errorf("Forget returned %t and %v, want true", there, err)
	}
}

// PanicsWith expects a call to panic with a text that has all of these parts.
func PanicsWith(t testing.TB, call func(), parts ...string) {
	t.Helper()
	defer func() {
		reason := fmt.Sprint(recover())
		for _, part := range parts {
			if !strings.Contains(reason, part) {
				t.Errorf("it panicked with %q, want %q in it", reason, part)
			}
		}
	}()
	call()
}
