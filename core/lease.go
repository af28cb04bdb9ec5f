package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/storage"
)

// wakeAt schedules watch for that time, or earlier for the end of the lease or of MaxRun.
// now may be a little old.
func (r *Run) wakeAt(now machine.Moment, at time.Time) {
	end := r.endOfMaxRun()
	r.mu.Lock()
	// After a suspension the wall clock is ahead, and decides when the lease ends.
	if lease := now.Monotonic.Add(now.Left(r.heldUntil)); !r.settling && lease.Before(end) {
		end = lease
	}
	r.mu.Unlock()
	if end.Before(at) {
		at = end
	}
	r.engine.renewals.Put(&r.turn, (*dueRun)(r), at)
}

func (r *Run) endOfMaxRun() time.Time { return r.claimed.Add(r.subject.route.policy.MaxRun) }

// dueRun is a run in the agenda.
type dueRun Run

// Due implements agenda.Due.
func (r *dueRun) Due() { (*Run)(r).watch() }

// watch renews the lease, or ends the handler's context when the lease or MaxRun has
// ended. The agenda calls watch after each third of the TTL, when the lease ends, at
// MaxRun, and after a suspension of the machine. Most handlers return before the first
// call. The run is queued again before the store is called, so that a renewal that
// hangs does not hide the end of the lease from the handler.
func (r *Run) watch() {
	if time.Until(r.endOfMaxRun()) <= 0 {
		r.end(ErrRunTooLong, event.Event{Result: event.RunTooLong, Err: ErrRunTooLong})
		return
	}
	if r.loseInTime() {
		return // the handler may still run, so this process keeps refusing duplicates
	}
	r.wakeAt(r.engine.clock.Now(), r.endOfMaxRun())
	if r.beginRenewal() {
		r.renew()
	}
}

// beginRenewal reports whether the caller must renew the lease. The result is false
// for a settled run, such as a streaming response, and during another renewal.
func (r *Run) beginRenewal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	begins := !r.settling && !r.renewing
	r.renewing = r.renewing || begins
	return begins
}

// renew renews the lease once, and schedules the next renewal: after a third of the
// TTL, or after a tenth when the store failed. The call ends with the lease at the
// latest.
func (r *Run) renew() {
	timeout := min(r.subject.route.policy.StoreTimeout, r.lease.TTL/3, r.leaseLeft())
	calledAt, err := r.extend(timeout)
	if err == nil {
		r.report(event.Event{Result: event.Renewed, Renewal: true}) // before the settlement's, which waits
	}
	r.renewedBy(calledAt, err, true)
}

// renewedBy ends a renewal that was called at calledAt: a scheduled one, or one that
// stores a step.
func (r *Run) renewedBy(calledAt time.Time, err error, scheduled bool) {
	next := calledAt.Add(r.lease.TTL / 3)
	r.mu.Lock()
	r.renewing, r.lastError = false, err
	r.renewed.Broadcast()
	over := r.cutOff || r.settling
	r.mu.Unlock()
	switch {
	case errors.Is(err, storage.ErrLeaseLost):
		// Another attempt holds the key, so the store decides about duplicates.
		r.engine.live.forget(r)
		r.end(storage.ErrLeaseLost, event.Event{Result: event.LeaseLost, Err: err, Renewal: scheduled})
		return
	case over:
		return
	case err != nil:
		r.report(event.Event{Result: event.StoreError, Err: err, Renewal: scheduled})
		next = time.Now().Add(r.lease.TTL / 10)
	}
	r.wakeAt(r.engine.clock.Now(), next)
}

// extend renews the lease at the store, and stores the steps.
func (r *Run) extend(timeout time.Duration) (calledAt time.Time, err error) {
	now, lease := r.engine.clock.Now(), r.currentLease()
	err = callStore(context.WithoutCancel(&r.context), timeout, func(ctx context.Context) error {
		return r.engine.store.Extend(ctx, lease, lease.TTL)
	})
	if err == nil {
		r.heldFrom(now)
	}
	r.stepsSent(len(lease.Steps), err)
	return now.Monotonic, err
}

// heldFrom records that the store renewed the lease at calledAt or later.
func (r *Run) heldFrom(calledAt machine.Moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldUntil = calledAt.Add(r.lease.TTL)
}

// leaseLeft returns the time for which the lease certainly lasts.
func (r *Run) leaseLeft() time.Duration {
	now := r.engine.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Left(r.heldUntil)
}

// holdsLease reports whether the lease certainly has not ended.
func (r *Run) holdsLease() bool { return r.leaseLeft() > 0 }

// loseInTime ends the handler's context if the lease may have ended. It reports
// whether the context was ended early, by this or by an earlier call.
func (r *Run) loseInTime() bool {
	now := r.engine.clock.Now()
	r.mu.Lock()
	over, why := r.cutOff, r.lastError
	expired := !over && !r.settling && now.Reaches(r.heldUntil)
	r.mu.Unlock()
	if !expired {
		return over
	}
	if why == nil {
		why = context.DeadlineExceeded
	}
	why = fmt.Errorf("%w: it could not be renewed in time: %w", storage.ErrLeaseLost, why)
	r.end(storage.ErrLeaseLost, event.Event{Result: event.LeaseLost, Err: why})
	return true
}

// end ends the handler's context early with a cause, and reports the event. Later
// calls have no effect.
func (r *Run) end(cause error, event event.Event) {
	r.mu.Lock()
	already := r.cutOff
	r.cutOff = true
	r.mu.Unlock()
	if !already {
		r.context.end(cause)
		r.report(event)
	}
}

// stopRenewing stops renewals, so that none reaches the store after the settlement.
// The call waits for a renewal that is under way, for StoreTimeout at most. No step begins
// after it, and it reports whether one still runs.
func (r *Run) stopRenewing() (inStep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settling = true
	for r.renewing {
		r.renewed.Wait()
	}
	return r.steps != nil && r.steps.running > 0
}
