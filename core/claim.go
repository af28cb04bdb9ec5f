package core

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/policy"
)

// errClaimTooSlow says that a lease may have ended before the store's reply came.
// Its holder asks once more, and the lease runs anew.
var errClaimTooSlow = errors.New("oncekey: the store took longer for the claim than the policy's LockTTL")

// acquire claims the key within the policy's StoreTimeout. The request's own
// cancellation does not reach the store: a claim that is cut off in flight
// would block the key.
func (e *Engine) acquire(ctx context.Context, a *admission) (Lease, *Record, error) {
	p := &a.route.policy
	claim := Claim{
		Key: a.storageKey, Token: a.token, Fingerprint: a.request.Fingerprint,
		TTL: p.LockTTL, Retain: p.LockTTL + p.TTL, TakeOver: !p.OnAbandoned.Refuses(),
	}
	a.claimed = time.Now()
	ctx = a.call.Detach(ctx, a.claimed.Add(p.StoreTimeout))
	defer a.call.Release()
	const tries = 3
	for try := 0; ; try++ {
		lease, record, err := e.store.Acquire(ctx, claim)
		took := time.Since(a.claimed)
		a.storeLatency += took
		if err == nil && record == nil && took >= claim.TTL {
			err = errClaimTooSlow
		}
		if err == nil || errors.Is(err, ErrCorruptRecord) || errors.Is(err, ErrStoreFull) {
			return lease, record, err
		}
		// The same token finds its own claim if the failed call did apply.
		if try == tries-1 || !sleep(ctx, backoff(try, 10*time.Millisecond, 100*time.Millisecond)) {
			e.giveBack(a, Lease{Claim: claim, Attempt: 1})
			return Lease{}, nil, err
		}
		a.claimed = time.Now()
	}
}

// storeFailed decides without the store. A record that cannot be read is no
// outage: a handler may have run for it, so FailOpen does not apply.
func (e *Engine) storeFailed(ctx context.Context, a *admission, err error) Decision {
	e.report(ctx, a, Event{Result: ResultStoreError, Err: err})
	if a.route.policy.OnStoreError == policy.FailOpen && !errors.Is(err, ErrCorruptRecord) {
		return Decision{}
	}
	return Decision{Problem: problem(CodeStoreUnavailable, "")}
}

// giveBack releases, in the background, a claim that nothing ran under, so that
// it does not block its key until the lease runs out. It does so twice, because a
// claim that was cut off may reach the store after its release. It is a courtesy:
// while many of them wait for a broken store, more are not begun, and Shutdown
// waits for one try and no more.
func (e *Engine) giveBack(a *admission, lease Lease) {
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
			if errors.Is(err, ErrLeaseLost) || !sleep(again, wait) {
				return
			}
		}
	})
}
