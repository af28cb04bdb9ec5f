package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// beginClaim counts a claim, so that Shutdown waits for its run or for its release. It
// returns false when the engine shuts down. The caller must call end after true.
func (l *liveRuns) beginClaim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closing {
		l.work++
	}
	return !l.closing
}

// acquire sets a.lease to a new lease of the key, or returns the key's record, within
// the policy's StoreTimeout. The request's cancellation does not reach the store,
// because a claim that is interrupted in flight would block the key.
func (e *Engine) acquire(ctx context.Context, a *admission) (*storage.Record, error) {
	p := &a.route.policy
	a.fingerprint() // sets the storage key and the key's hash too
	// The token is new for each round of a wait. The late release of an earlier
	// round's claim must not release the claim of this round.
	a.lease.Claim = storage.Claim{
		Key: a.storageKey, Token: storage.NewToken(), Fingerprint: a.request.Fingerprint, Digest: a.bytes,
		TTL: p.LockTTL, Retain: p.LockTTL + p.TTL, Remember: p.Remember,
		Origin: e.origin(ctx, a), TakeOver: !p.OnAbandoned.Refuses(),
	}
	a.claimed = e.clock.Now()
	deadline := a.claimed.Monotonic.Add(p.StoreTimeout)
	const tries = 3
	for try := 0; ; try++ {
		record, err := e.claim(ctx, a, deadline)
		if err == nil || isLasting(err) && try == 0 {
			return record, err
		}
		// The same token gets its own claim again if the failed call took effect. So a
		// claim is given back after a lasting error too, if a call before may have made it.
		wait := backoff(try, 10*time.Millisecond, 100*time.Millisecond)
		if isLasting(err) || try == tries-1 || time.Until(deadline) <= wait || !sleep(e.live.background, wait) {
			a.lease.Attempt, a.lease.TookOver, a.lease.Steps = 1, false, "" // of a new key
			e.releaseClaim(a)
			return nil, err
		}
		a.claimed = e.clock.Now()
	}
}

// claim calls the store once, with a new context, at a.claimed. It sets a.lease, or
// returns the key's record.
func (e *Engine) claim(ctx context.Context, a *admission, deadline time.Time) (*storage.Record, error) {
	call := &a.call
	if a.called { // a.call served the first call, and has ended
		call = new(lazycontext.Context)
	}
	a.called = true
	defer call.Release()
	record, err := e.store.Acquire(call.Detach(ctx, deadline), &a.lease)
	returned := e.clock.Now()
	a.storeLatency += returned.Monotonic.Sub(a.claimed.Monotonic)
	if err == nil && record != nil && isSealed(record) {
		record, err = nil, errSealed
	}
	if err == nil && record == nil && returned.Reaches(a.claimed.Add(a.lease.TTL)) {
		err = errClaimTooSlow
	}
	return record, err
}

// errClaimTooSlow says that a lease may have ended before the store's reply arrived.
// The engine then repeats the claim, which restarts the lease.
var errClaimTooSlow = errors.New("oncekey: the store took longer for the claim than the policy's LockTTL")

// errSealed says that a sealed record came out of a store without its seal. Its body
// is ciphertext and must not be replayed.
var errSealed = fmt.Errorf("%w: it is sealed, and the store of this engine is not package sealedstore's", storage.ErrCorruptRecord)

func isSealed(record *storage.Record) bool {
	return slices.ContainsFunc(record.Header, func(f storage.Field) bool { return f.Op >= storage.Sealed })
}

// isLasting reports whether the store would return the same error again.
func isLasting(err error) bool {
	return errors.Is(err, storage.ErrCorruptRecord) || errors.Is(err, storage.ErrStoreFull) || errors.Is(err, storage.ErrStoreForbidden) ||
		errors.Is(err, storage.ErrNotStorable)
}

// storeFailed decides without the store. FailOpen does not apply in four cases. The
// record is unreadable, now or ever, or was in progress in an earlier round: then a
// handler may have run or may be running. Or this process lacks a right at the store, or
// the store can never keep the claim, which are wrong configurations and no outages.
func (e *Engine) storeFailed(ctx context.Context, a *admission, err error) Decision {
	e.report(ctx, a, event.Event{Result: event.StoreError, Err: err})
	a.failure = err
	forbidden := errors.Is(err, storage.ErrUnreadable) || errors.Is(err, storage.ErrCorruptRecord) || errors.Is(err, storage.ErrStoreForbidden) ||
		errors.Is(err, storage.ErrNotStorable)
	switch {
	case a.waited && !forbidden:
		return Decision{Problem: problem.New(problem.InProgress, "")}
	case a.route.policy.OnStoreError == policy.FailOpen && !forbidden:
		return Decision{}
	default:
		return Decision{Problem: problem.New(problem.StoreUnavailable, "")}
	}
}

// releaseClaim releases the unused claim of a.lease in the background, so that the key
// is not blocked until the lease ends. The claim is released twice, because a claim that
// timed out may reach the store after the first release. At most 64 claims are
// released at a time, and Shutdown waits for one try each, because the leases also
// end without a release.
func (e *Engine) releaseClaim(a *admission) {
	select {
	case e.releasing <- struct{}{}:
	default:
		return
	}
	lease, claimed, timeout := a.lease, a.claimed.Monotonic, a.route.policy.StoreTimeout
	e.inBackground(func(ctx context.Context) {
		defer func() { <-e.releasing }()
		again, cancel := context.WithTimeout(e.live.serving, lease.TTL)
		defer cancel()
		for try, released := 0, 0; released < 2; try++ {
			lease.Age = time.Since(claimed)
			// A release would erase that an abandoned attempt may have had a side effect.
			err := callStore(ctx, timeout, func(ctx context.Context) error { return e.release(ctx, lease, lease.TookOver) })
			wait := settleBackoff(try)
			if err == nil {
				released++
				wait = timeout
			}
			if err != nil && isFinal(err) || !sleep(again, wait) {
				return
			}
		}
	})
}
