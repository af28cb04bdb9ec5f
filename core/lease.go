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

// wakeAt has the run watched at that time, or at the end of its lease or of MaxRun
// if that is earlier.
func (r *Run) wakeAt(at time.Time) {
	end, now := r.endOfMaxRun(), r.engine.now()
	r.mu.Lock()
	// After a suspension the wall clock is ahead, and the lease ends by it.
	if lease := now.monotonic.Add(now.left(r.heldUntil)); !r.settling && lease.Before(end) {
		end = lease
	}
	r.mu.Unlock()
	if end.Before(at) {
		at = end
	}
	r.engine.renewals.place(r, at)
}

func (r *Run) endOfMaxRun() time.Time { return r.claimed.Add(r.subject.route.policy.MaxRun) }

// watch is called every third of the lease's time, when the lease ends, at MaxRun,
// and when the machine was suspended. Most handlers are done before the first. It
// is back in the queue while the store is asked: a renewal that hangs does not keep
// the handler from learning that its lease is over.
func (r *Run) watch() {
	if time.Until(r.endOfMaxRun()) <= 0 {
		r.end(ErrRunTooLong, event.Event{Result: event.RunTooLong, Err: ErrRunTooLong})
		return
	}
	if r.loseInTime() {
		return // the handler may still run, so this process goes on to refuse its duplicates
	}
	r.wakeAt(r.endOfMaxRun())
	if r.beginRenewal() {
		r.renew()
	}
}

// beginRenewal reports whether the caller is to renew the lease: unless the run is
// settled, such as a response that streams, or another renewal is under way.
func (r *Run) beginRenewal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	begins := !r.settling && !r.renewing
	r.renewing = r.renewing || begins
	return begins
}

// renew renews the lease once, and decides when to do so again: soon, when the
// store could not be reached.
func (r *Run) renew() {
	calledAt, err := r.extend()
	next := calledAt.Add(r.lease.TTL / 3)
	r.mu.Lock()
	r.renewing, r.lastError = false, err
	r.renewed.Broadcast()
	over := r.cutOff || r.settling
	r.mu.Unlock()
	switch {
	case errors.Is(err, storage.ErrLeaseLost):
		// Another attempt has the key: from now on the store decides about it.
		r.engine.live.forget(r)
		r.lose(err)
		return
	case over:
		return
	case err != nil:
		r.report(event.Event{Result: event.StoreError, Err: err})
		next = time.Now().Add(r.lease.TTL / 10)
	}
	r.wakeAt(next)
}

// extend asks the store to renew the lease, for as long as the lease runs at most.
func (r *Run) extend() (calledAt time.Time, err error) {
	now := r.engine.now()
	timeout := min(r.subject.route.policy.StoreTimeout, r.lease.TTL/3, r.leaseLeft())
	err = callStore(context.WithoutCancel(&r.context), timeout, func(ctx context.Context) error {
		return r.engine.store.Extend(ctx, r.lease, r.lease.TTL)
	})
	if err == nil {
		r.heldFrom(now)
	}
	return now.monotonic, err
}

// heldFrom takes down that the store has renewed the lease when asked, or later.
func (r *Run) heldFrom(calledAt moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldUntil = calledAt.add(r.lease.TTL)
}

// leaseLeft is how long the lease is certain to last.
func (r *Run) leaseLeft() time.Duration {
	now := r.engine.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.left(r.heldUntil)
}

// holdsLease reports whether the lease is certain not to have ended.
func (r *Run) holdsLease() bool { return r.leaseLeft() > 0 }

// loseInTime ends the handler's context if the lease may have ended. It reports
// whether the context was ended before its time, now or before.
func (r *Run) loseInTime() bool {
	now := r.engine.now()
	r.mu.Lock()
	over, why := r.cutOff, r.lastError
	expired := !over && !r.settling && now.reaches(r.heldUntil)
	r.mu.Unlock()
	if !expired {
		return over
	}
	if why == nil {
		why = context.DeadlineExceeded
	}
	r.lose(fmt.Errorf("%w: it could not be renewed in time: %w", storage.ErrLeaseLost, why))
	return true
}

// lose tells the handler that it does not hold the lease any more.
func (r *Run) lose(why error) {
	r.end(storage.ErrLeaseLost, event.Event{Result: event.LeaseLost, Err: why})
}

// end ends the handler's context before its time, once, and says why.
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

// stopRenewing makes the caller the last to ask the store about the lease: no renewal
// reaches the store after the settlement. It waits for a renewal that is under way,
// for StoreTimeout at most.
func (r *Run) stopRenewing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settling = true
	for r.renewing {
		r.renewed.Wait()
	}
}

// moment is an instant on both clocks of this machine. They part when the machine
// is suspended: its monotonic clock stands still while the wall clock goes on. A
// lease at the store goes on too, so either clock may say that it is over.
type moment struct{ monotonic, wall time.Time }

// now reads both clocks.
func (e *Engine) now() moment {
	now := time.Now()
	if e.wall == nil {
		return moment{now, now.Round(0)} // Round strips the monotonic reading
	}
	return moment{now, e.wall(now)}
}

func (m moment) add(d time.Duration) moment { return moment{m.monotonic.Add(d), m.wall.Add(d)} }

// reaches reports whether either clock has come to end.
func (m moment) reaches(end moment) bool {
	return m.left(end) <= 0
}

// left is how long it is until end, by the clock that is ahead.
func (m moment) left(end moment) time.Duration {
	return min(end.monotonic.Sub(m.monotonic), end.wall.Sub(m.wall))
}

// wallOf returns the wall clock of a simulated machine, or nil for this one's.
func wallOf(store storage.Store) machine.WallClock {
	if simulated, ok := store.(machine.Simulated); ok {
		return simulated.WallClock()
	}
	return nil
}
