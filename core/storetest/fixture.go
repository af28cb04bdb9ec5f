package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	fingerprint      = "sha256:0000000000000000000000000000000000000000000000000000000000000001"
	otherFingerprint = "sha256:0000000000000000000000000000000000000000000000000000000000000002"
)

// manyKeys is the number of keys in the cases with many keys: more than fit into one page
// of 1000 records, or into three of 333. Over a server these cases are most of the suite's
// calls.
const manyKeys = 1_200

// digest and otherDigest belong to different requests.
var digest, otherDigest = storage.Digest{1, 0xff, 15: 0x0a}, storage.Digest{2}

// fixture is the environment of a case: the store and the length of a unit.
type fixture struct {
	testing.TB
	store storage.Store
	unit  time.Duration
	// tooLarge is the Config's.
	tooLarge int
	// began is the begin of the case, and waited the sum of its waits so far.
	began  time.Time
	waited atomic.Int64 // in nanoseconds
}

func newFixture(t testing.TB, store storage.Store, unit time.Duration) *fixture {
	return &fixture{TB: t, store: store, unit: unit, began: time.Now()}
}

// delay is the time that a case has taken beside its waits: long on a busy machine, and
// none in a bubble. Cases that wait on several goroutines do not use it.
func (f *fixture) delay() time.Duration { return time.Since(f.began) - time.Duration(f.waited.Load()) }

// key returns the n-th storage key, in the form of storage.Key.
func key(n int) string { return fmt.Sprintf("%064x", n) }

// long is the duration of a lease or a record that lasts longer than the case.
func (f *fixture) long() time.Duration { return 100 * f.unit }

// claim returns a claim of a key with a new token and a lease that lasts.
func (f *fixture) claim() storage.Claim {
	return storage.Claim{
		Key: key(1), Token: storage.NewToken(), Fingerprint: fingerprint, Digest: digest, LockTTL: f.long(), Retain: 10 * f.long(),
		Origin: origin,
	}
}

// shortClaim returns a claim with a lease of one unit.
func (f *fixture) shortClaim() storage.Claim {
	c := f.claim()
	c.LockTTL = f.unit
	return c
}

// takeOver returns a claim that may take over the key.
func (f *fixture) takeOver() storage.Claim {
	c := f.claim()
	c.TakeOver = true
	return c
}

// ofAnotherRequest is the claim of a request that differs in its bytes.
func ofAnotherRequest(c storage.Claim) storage.Claim {
	c.Fingerprint, c.Digest = otherFingerprint, otherDigest
	return c
}

// result returns a response that names its lease.
func (f *fixture) result(by storage.Lease) storage.Result {
	return storage.Result{
		State: storage.Completed, Status: 201, Body: fmt.Appendf(nil, "response of %s", by.Token), Retain: f.long(),
		Header: storage.Header{{Op: storage.Set, Name: "Content-Type", Value: "text/plain"}},
		Sketch: fmt.Appendf(nil, "sketch of %s", by.Token),
	}
}

// acquire calls Acquire. It fails on an error, and on a return of both a lease and a
// record, or neither.
func (f *fixture) acquire(request storage.Request) (storage.Lease, *storage.Record) {
	f.Helper()
	c := request.Claim()
	lease, record, err := f.store.Acquire(f.Context(), request)
	switch {
	case err != nil:
		f.Fatalf("Acquire: %v", err)
	case record != nil && lease != (storage.Lease{}):
		f.Fatalf("Acquire returned a record, %s, and a lease, attempt %d: want one of them", record.State, lease.Attempt)
	case record == nil && lease == (storage.Lease{}):
		f.Fatal("Acquire returned neither a lease nor a record")
	case record == nil && lease.Claim != c:
		f.Fatalf("the lease is for %+v, want the claim %+v", lease.Claim, c)
	}
	return lease, record
}

// win expects that the claim gets the lease.
func (f *fixture) win(request storage.Request, attempt uint64, tookOver bool) storage.Lease {
	f.Helper()
	lease, record := f.acquire(request)
	if record != nil {
		f.Fatalf("Acquire found a record, %s: want the lease", describe(record))
	}
	if lease.Attempt != attempt || lease.TookOver != tookOver {
		f.Fatalf("Acquire got attempt %d with TookOver %t, want %d with %t", lease.Attempt, lease.TookOver, attempt, tookOver)
	}
	return lease
}

// find expects that the claim does not get the lease, and returns the record.
func (f *fixture) find(request storage.Request) *storage.Record {
	f.Helper()
	lease, record := f.acquire(request)
	if record == nil {
		f.Fatalf("Acquire got the lease, attempt %d: want a record", lease.Attempt)
	}
	return record
}

// holds expects the lease to be running.
func (f *fixture) holds(l storage.Lease) {
	f.Helper()
	if r := f.find(f.takeOver()); r.State != storage.InProgress || r.Attempt != l.Attempt || r.LeaseLeft <= 0 {
		f.Fatalf("the store holds %s, want attempt %d in progress", describe(r), l.Attempt)
	} else {
		f.isOf(r, l)
	}
}

// replays expects every caller to get the lease's result.
func (f *fixture) replays(l storage.Lease, want storage.Result) {
	f.Helper()
	c := f.takeOver()
	c.Key = l.Key
	f.shows(f.find(c), l, want)
}

// shows expects the record to be the lease's result.
func (f *fixture) shows(r *storage.Record, l storage.Lease, want storage.Result) {
	f.Helper()
	if r.State != want.State || r.Status != want.Status || !bytes.Equal(r.Body, want.Body) || !slices.Equal(r.Header, want.Header) {
		f.Fatalf("the record is %s\nwant %s %d %v, %s", describe(r), want.State, want.Status, want.Header, shorten(want.Body))
	}
	if !bytes.Equal(r.Sketch, want.Sketch) {
		f.Fatalf("the record's sketch is %q, want %q", r.Sketch, want.Sketch)
	}
	f.isOf(r, l)
}

// isOf expects the record to be of the lease's request and attempt.
func (f *fixture) isOf(r *storage.Record, l storage.Lease) {
	f.Helper()
	if r.Attempt != l.Attempt || r.Fingerprint != l.Fingerprint || r.Digest != l.Digest {
		f.Fatalf("the record is of attempt %d, %s, digest %x\nwant %d, %s, digest %x",
			r.Attempt, r.Fingerprint, r.Digest, l.Attempt, l.Fingerprint, l.Digest)
	}
}

func (f *fixture) complete(l storage.Lease, r storage.Result) {
	f.Helper()
	if err := f.store.Complete(f.Context(), l, r); err != nil {
		f.Fatalf("Complete: %v", err)
	}
}

func (f *fixture) release(l storage.Lease) {
	f.Helper()
	if err := f.store.Release(f.Context(), l); err != nil {
		f.Fatalf("Release: %v", err)
	}
}

func (f *fixture) extend(l storage.Lease, ttl time.Duration) {
	f.Helper()
	if err := f.store.Extend(f.Context(), l, ttl); err != nil {
		f.Fatalf("Extend: %v", err)
	}
}

func (f *fixture) isLost(method string, err error) {
	f.Helper()
	f.isError(method, err, storage.ErrLeaseLost)
}

func (f *fixture) isError(method string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("%s returned %v, want an error that is %q", method, err, want)
	}
}

// abandon makes a claim, and lets its lease run out.
func (f *fixture) abandon() storage.Lease {
	f.Helper()
	lease := f.win(f.shortClaim(), 1, false)
	f.wait(2 * f.unit)
	return lease
}

// overtaken returns the lease of a holder that was too late, and of the one that
// took its key over.
func (f *fixture) overtaken() (stale, current storage.Lease) {
	f.Helper()
	stale = f.abandon()
	return stale, f.win(f.takeOver(), 2, true)
}

// wait lets time pass. In a bubble that takes no time.
func (f *fixture) wait(d time.Duration) {
	f.waited.Add(int64(d))
	pause(f.Context(), d)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// winOnceClaimable tries until the claim gets the lease, and returns the lease and
// the time that has passed since start.
func (f *fixture) winOnceClaimable(c storage.Claim, start time.Time, patience time.Duration) (storage.Lease, time.Duration) {
	f.Helper()
	for {
		c.Token = storage.NewToken()
		lease, record := f.acquire(c)
		passed := time.Since(start)
		if record == nil {
			return lease, passed
		}
		if passed > patience {
			f.Fatalf("after %s the key is still held: %s", passed, describe(record))
		}
		f.wait(f.unit / 10)
	}
}

func describe(r *storage.Record) string {
	return fmt.Sprintf("{%s attempt:%d lease left:%s status:%d header:%v body:%s}",
		r.State, r.Attempt, r.LeaseLeft, r.Status, r.Header, shorten(r.Body))
}

func shorten(body []byte) string {
	const enough = 64
	if len(body) > enough {
		return fmt.Sprintf("%q... (%d bytes)", body[:enough], len(body))
	}
	return fmt.Sprintf("%q", body)
}
