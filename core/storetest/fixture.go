package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	fingerprint      = "sha256:0000000000000000000000000000000000000000000000000000000000000001"
	otherFingerprint = "sha256:0000000000000000000000000000000000000000000000000000000000000002"
)

// callKey is the key of callTime, which no case uses.
const callKey = 1_000_000

// manyKeys is the number of keys in the case with many keys: more than fit into one page
// of 1000 records, or into three of 333.
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
	// transactor is the store again, and table the one beside its records, if they come from a TransactorConfig.
	transactor storage.Transactor
	table      Table
	// began is the begin of the case, and waited the sum of its waits so far.
	began  time.Time
	waited atomic.Int64 // in nanoseconds
	races  atomic.Int64 // of againstTakeOvers, each with keys of its own
}

func newFixture(t testing.TB, store storage.Store, unit time.Duration) *fixture {
	t.Helper()
	if store == nil {
		t.Fatal("storetest: New returned a nil store")
	}
	if unit <= 0 {
		unit = defaultUnit
	}
	return &fixture{TB: t, store: store, unit: unit, began: time.Now()}
}

// delay is the time that a case has taken beside its waits: long on a busy machine, and
// none in a bubble. Cases that wait on several goroutines do not use it.
func (f *fixture) delay() time.Duration { return time.Since(f.began) - time.Duration(f.waited.Load()) }

// callTime is the time of one call: long on a busy machine, and none in a bubble.
func (f *fixture) callTime() time.Duration {
	f.Helper()
	start := time.Now()
	f.win(of(f.claim(), key(callKey)), 1, false)
	return time.Since(start)
}

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

func (f *fixture) complete(l storage.Lease, r storage.Result) {
	f.Helper()
	if err := f.store.Complete(f.Context(), l, r); err != nil {
		f.Fatalf("Complete: %v", err)
	}
}

// finish completes the lease with a result that is kept for a time, and then remembered.
func (f *fixture) finish(l storage.Lease, retain, remember time.Duration) storage.Result {
	f.Helper()
	res := f.result(l)
	res.Retain, res.Remember = retain, remember
	f.complete(l, res)
	return res
}

// finishes completes the lease, and expects every caller to get its result.
func (f *fixture) finishes(l storage.Lease) {
	f.Helper()
	f.complete(l, f.result(l))
	f.replays(l, f.result(l))
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

// loses expects each settlement of the lease to return ErrLeaseLost.
func (f *fixture) loses(l storage.Lease) {
	f.Helper()
	f.cannotExtend(l)
	f.isLost("Release", f.store.Release(f.Context(), l))
	f.isLost("Complete", f.store.Complete(f.Context(), l, f.result(l)))
}

// cannotExtend expects each Extend of the lease to return ErrLeaseLost, also one that would leave its key abandoned.
func (f *fixture) cannotExtend(l storage.Lease) {
	f.Helper()
	for _, ttl := range []time.Duration{0, f.long()} {
		f.isLost("Extend", f.store.Extend(f.Context(), l, ttl))
	}
}

// abandon makes the first claim of a key, and lets its lease run out.
func (f *fixture) abandon(short storage.Claim) storage.Lease {
	f.Helper()
	lease := f.win(short, 1, false)
	f.wait(2 * f.unit)
	return lease
}

// overtaken returns the lease of a holder that was too late, and of the one that
// took its key over.
func (f *fixture) overtaken() (stale, current storage.Lease) {
	f.Helper()
	stale = f.abandon(f.shortClaim())
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

// ended returns a context that has ended.
func (f *fixture) ended() context.Context {
	ended, cancel := context.WithCancel(f.Context())
	cancel()
	return ended
}

// winAfter tries until the claim gets the lease, and expects that not before the time has passed since start.
func (f *fixture) winAfter(want time.Duration, start time.Time, c storage.Claim, attempt uint64, tookOver bool) {
	f.Helper()
	lease, passed := f.winOnceClaimable(c, start)
	if passed < want-clockGrain {
		f.Errorf("the key was claimed after %s, want not before %s", passed, want)
	}
	f.isLease(lease, attempt, tookOver)
}

// winOnceClaimable tries until the claim gets the lease, and returns the lease and
// the time that has passed since start.
func (f *fixture) winOnceClaimable(c storage.Claim, start time.Time) (storage.Lease, time.Duration) {
	f.Helper()
	for {
		c.Token = storage.NewToken()
		lease, record := f.acquire(c)
		passed := time.Since(start)
		if record == nil {
			return lease, passed
		}
		if passed > f.long() {
			f.Fatalf("after %s the key is still held: %s", passed, describe(record))
		}
		f.wait(f.unit / 10)
	}
}
