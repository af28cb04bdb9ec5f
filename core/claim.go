package core

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// errClaimTooSlow says that a lease may have ended before the store's reply came.
// Its holder repeats the claim, and the lease runs anew.
var errClaimTooSlow = errors.New("oncekey: the store took longer for the claim than the policy's LockTTL")

// acquire claims the key within the policy's StoreTimeout. The request's own
// cancellation does not reach the store: a claim that is cut off in flight
// would block the key.
func (e *Engine) acquire(ctx context.Context, a *admission) (storage.Lease, *storage.Record, error) {
	p := &a.route.policy
	// The token is new for each round of a wait. A claim that was given up may be
	// released late, and must not take a later round's claim with it.
	claim := storage.Claim{
		Key: a.storageKey, Token: storage.NewToken(), Fingerprint: a.request.Fingerprint, Digest: a.bytes,
		TTL: p.LockTTL, Retain: p.LockTTL + p.TTL, TakeOver: !p.OnAbandoned.Refuses(),
	}
	deadline := time.Now().Add(p.StoreTimeout)
	const tries = 3
	for try := 0; ; try++ {
		lease, record, err := e.claim(ctx, a, claim, deadline)
		if err == nil || isLasting(err) {
			return lease, record, err
		}
		// The same token finds its own claim if the failed call did apply.
		wait := backoff(try, 10*time.Millisecond, 100*time.Millisecond)
		if try == tries-1 || time.Until(deadline) <= wait || !sleep(e.live.background, wait) {
			e.giveBack(a, storage.Lease{Claim: claim, Attempt: 1})
			return storage.Lease{}, nil, err
		}
	}
}

// claim makes one call at the store, with a context of its own.
func (e *Engine) claim(ctx context.Context, a *admission, claim storage.Claim, deadline time.Time) (storage.Lease, *storage.Record, error) {
	call := &a.call
	if a.called { // the first call's context is a part of a, and has ended
		call = new(lazycontext.Context)
	}
	a.called = true
	defer call.Release()
	a.claimed = e.now()
	lease, record, err := e.store.Acquire(call.Detach(ctx, deadline), claim)
	a.storeLatency += time.Since(a.claimed.monotonic)
	if err == nil && record == nil && e.now().reaches(a.claimed.add(claim.TTL)) {
		err = errClaimTooSlow
	}
	return lease, record, err
}

// isLasting reports whether the store would give the same error again.
func isLasting(err error) bool {
	return errors.Is(err, storage.ErrCorruptRecord) || errors.Is(err, storage.ErrStoreFull) || errors.Is(err, storage.ErrStoreForbidden)
}

// storeFailed decides without the store. FailOpen does not apply where a handler
// may have run or runs: the record cannot be read, or was in progress when this
// request looked before. Nor does it where the store forbids what the guard needs:
// that is a wrong configuration and no outage.
func (e *Engine) storeFailed(ctx context.Context, a *admission, err error) Decision {
	e.report(ctx, a, event.Event{Result: event.StoreError, Err: err})
	switch forbidden := errors.Is(err, storage.ErrCorruptRecord) || errors.Is(err, storage.ErrStoreForbidden); {
	case a.waited && !forbidden:
		return Decision{Problem: problem.New(problem.InProgress, "")}
	case a.route.policy.OnStoreError == policy.FailOpen && !forbidden:
		return Decision{}
	default:
		return Decision{Problem: problem.New(problem.StoreUnavailable, "")}
	}
}

// giveBack releases, in the background, a claim that nothing ran under, so that
// it does not block its key until the lease ends. It does so twice, because a
// claim that was cut off may reach the store after its release. The lease would
// end by itself too: so only a few are given back at a time, and Shutdown waits
// for one try each.
func (e *Engine) giveBack(a *admission, lease storage.Lease) {
	select {
	case e.givingBack <- struct{}{}:
	default:
		return
	}
	e.inBackground(func(ctx context.Context) {
		defer func() { <-e.givingBack }()
		again, cancel := context.WithTimeout(e.live.serving, lease.TTL)
		defer cancel()
		timeout := a.route.policy.StoreTimeout
		for try, released := 0, 0; released < 2; try++ {
			err := callStore(ctx, timeout, func(ctx context.Context) error { return e.store.Release(ctx, lease) })
			wait := settleBackoff(try)
			if err == nil {
				released++
				wait = timeout
			}
			if errors.Is(err, storage.ErrLeaseLost) || errors.Is(err, storage.ErrStoreForbidden) || !sleep(again, wait) {
				return
			}
		}
	})
}
