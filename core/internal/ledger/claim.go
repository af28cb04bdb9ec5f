package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/storage"
)

// Request is a storage.Request that knows whether its claim was made.
type Request interface {
	storage.Request
	// Made reports whether Claim was called in this round.
	Made() bool
}

// Claim is the claim of one key, from the first call until it is held or given back.
type Claim struct {
	// Request is the request of the lease.
	Request Request
	// Lease is the lease, once Make has returned no record.
	Lease storage.Lease
	// Call is the context of the first call.
	Call *lazycontext.Context
	// Timeout is the policy's StoreTimeout.
	Timeout time.Duration
	// At is the time of the last call, and the earliest start of the lease.
	At machine.Moment
	// Latency is the time that the store took for all calls.
	Latency time.Duration
	steps   *stepping // of earlier attempts
	place   *place    // in the limit of its scope, or nil
	held    bool      // its hold has begun
}

// Make claims the key within the timeout, or returns the key's record. The cancellation
// of ctx does not reach the store, because a claim that is interrupted in flight would
// block the key.
func (l *Ledger) Make(ctx context.Context, c *Claim) (*storage.Record, error) {
	c.At, c.held, c.place = l.clock.Now(), false, nil // an earlier round may have begun a hold
	first := c.At.Monotonic
	const tries = 3
	for try := 0; ; try++ {
		record, err := l.claim(ctx, c, c.Timeout-c.At.Monotonic.Sub(first))
		switch {
		case err == nil && record == nil:
			if c.steps, err = resumed(c.Lease.Steps); err != nil {
				l.GiveBack(ctx, c)
			}
			return nil, err
		case err == nil, rules.ClaimLasts(err) && try == 0:
			return record, err
		}
		// The same token gets its own claim again if the failed call took effect. So a
		// claim is given back after a lasting error too, if a call before may have made it.
		wait := soon(try)
		if rules.ClaimLasts(err) || try == tries-1 || c.Timeout-time.Since(first) <= wait || !sleep(l.background, wait) {
			c.Lease = storage.Lease{Claim: c.Request.Claim(), Attempt: 1} // of a new key
			l.GiveBack(ctx, c)
			return nil, err
		}
		c.At = l.clock.Now()
	}
}

// Admit asks the store within the timeout whether the scope, a hash, may run the key that Make
// has just claimed for the first time. If not, the key is released, and counts as never claimed.
// A key whose lease has ended meanwhile is not admitted. Only a ledger with a Limiter calls Admit.
func (l *Ledger) Admit(ctx context.Context, c *Claim, scope string) (a storage.Admission, err error) {
	began := time.Now()
	defer func() { c.Latency += time.Since(began) }()
	ctx = context.WithoutCancel(ctx) // a place that is taken in flight would stay until the lease ends
	c.place = &place{l.Limiter, storage.Place{Scope: scope, Token: c.Lease.Token}}
	for try := 0; ; try++ {
		left := c.Timeout - time.Since(began)
		err = within(ctx, left, func(ctx context.Context) error {
			a, err = c.place.admit(ctx, c.Lease.LockTTL, l.Limit)
			return err
		})
		if wait := soon(try); err == nil || rules.ClaimLasts(err) || left <= wait || !sleep(l.background, wait) {
			break
		}
	}
	if err == nil && a.Reached == 0 && l.clock.Now().Reaches(c.At.Add(c.Lease.LockTTL)) {
		err = rules.ErrClaimTooSlow
	}
	switch {
	case err != nil:
		l.GiveBack(ctx, c)
	case a.Reached != 0: // at once, so that a flood leaves no claims behind
		c.place = nil
		l.Undo(ctx, c)
	case l.Limit.InFlight == 0: // the store has no place to give back
		c.place = nil
	}
	return a, err
}

// EndClaim ends a claim that BeginClaim has counted, unless its hold counts instead.
func (l *Ledger) EndClaim(c *Claim) {
	if !c.held {
		l.end()
	}
}

// claim calls the store once, with a new context, at c.At.
func (l *Ledger) claim(ctx context.Context, c *Claim, timeout time.Duration) (*storage.Record, error) {
	call := c.Call
	if call.Used() { // c.Call served the first call, and has ended
		call = new(lazycontext.Context)
	}
	defer call.Release()
	record, err := l.store.acquire(call.Detach(ctx, c.At.Monotonic, timeout), c.Request, &c.Lease)
	switch {
	case !c.Request.Made(): // the store is in this process's memory, and has not waited
	case err != nil || record != nil: // one clock is enough
		c.Latency += time.Since(c.At.Monotonic)
	default:
		returned := l.clock.Now()
		c.Latency += returned.Monotonic.Sub(c.At.Monotonic)
		if returned.Reaches(c.At.Add(c.Lease.LockTTL)) {
			return nil, rules.ErrClaimTooSlow
		}
	}
	if record != nil && isSealed(record) {
		return nil, errSealed
	}
	return record, err
}

// errSealed says that a sealed record came out of a store without its seal. Its body
// is ciphertext and must not be replayed.
var errSealed = fmt.Errorf("%w: it is sealed, and the store of this engine is not package sealedstore's", storage.ErrCorruptRecord)

func isSealed(record *storage.Record) bool {
	return slices.ContainsFunc(record.Header, func(f storage.Field) bool { return f.Op >= storage.Sealed })
}

// GiveBack releases an unused claim in the background, with the values of ctx, so that the key is
// not blocked until the lease ends. The claim is released twice, because a claim that timed out may
// reach the store after the first release. At most 64 claims are released at a time, and
// Shutdown waits for one try each, because the leases also end without a release.
func (l *Ledger) GiveBack(ctx context.Context, c *Claim) {
	select {
	case l.releasing <- struct{}{}:
	default:
		return
	}
	lease, claimed, timeout, taken := c.Lease, c.At.Monotonic, c.Timeout, c.place
	l.inBackground(ctx, func(ctx context.Context) {
		defer func() { <-l.releasing }()
		if taken != nil {
			taken.keep(ctx, timeout, 0)
		}
		again, cancel := context.WithTimeout(l.serving, lease.LockTTL)
		defer cancel()
		for try, released := 0, 0; released < 2; try++ {
			lease.Age = time.Since(claimed)
			err := within(ctx, timeout, func(ctx context.Context) error { return l.restore(ctx, lease) })
			wait := settleBackoff(try)
			if err == nil {
				released++
				wait = timeout
			}
			if err != nil && rules.WriteLasts(err) || !sleep(again, wait) {
				return
			}
		}
	})
}

// Undo deletes the record of a claim that found none, before it returns. If the store fails,
// GiveBack deletes it later. The cancellation of ctx does not reach the store.
func (l *Ledger) Undo(ctx context.Context, c *Claim) {
	lease := c.Lease
	lease.Age = time.Since(c.At.Monotonic)
	err := within(context.WithoutCancel(ctx), c.Timeout, func(ctx context.Context) error { return l.store.release(ctx, lease) })
	if err != nil && !rules.WriteLasts(err) {
		l.GiveBack(ctx, c)
	}
}

// restore gives a key back as the claim has found it. A release would erase that an
// abandoned attempt may have had a side effect.
func (l *Ledger) restore(ctx context.Context, lease storage.Lease) error {
	if lease.TookOver {
		return l.store.extend(ctx, lease, 0)
	}
	return l.store.release(ctx, lease)
}
