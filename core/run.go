package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/failure"
)

// Run is the right to run the handler of one key, once. It is made by
// Engine.Begin and must end in Engine.Finish, in a defer: a panic, too, is an
// end. The lease is renewed in the meantime.
type Run struct {
	engine  *Engine
	subject *subject
	started time.Time
	lease   Lease
	sketch  []byte // of the request; nil when there is none
	marks   failure.Marks
	context runContext
	handler context.Context // context, or one that carries the transaction as well
	// tx and endTransaction are nil unless the policy is transactional.
	tx             Transaction
	endTransaction context.CancelFunc
	// wouldKeep says, of a run that is only observed, that a guard would have kept
	// its answer.
	wouldKeep bool
	// execution is nil unless the run is an HTTP handler's.
	execution *execution

	// atStore is held by the renewal or the settlement that is under way, so that
	// no renewal reaches the store after the settlement.
	atStore sync.Mutex
	settled bool                // guarded by atStore: there is nothing left to renew
	call    lazycontext.Context // guarded by atStore: of the settlement

	mu        sync.Mutex
	pattern   string    // the route's, as soon as it is known
	heldUntil time.Time // when the lease ends at the earliest, by this process's monotonic clock
	result    *Result   // what the run was settled with, once it is known
	storing   Result    // what it is being settled with

	// What follows is guarded by the engine's renewals.
	wake   time.Time // when renew is called
	place  int       // in the queue; negative: not there
	closed bool

	smallSketch [128]byte
}

func newRun(ctx context.Context, e *Engine, a *admission, lease Lease) *Run {
	var run *Run
	if a.served {
		execution := new(execution)
		run, execution.run.execution = &execution.run, execution
	} else {
		run = new(Run)
	}
	run.engine, run.subject, run.started, run.lease = e, &a.subject, a.started, lease
	run.pattern, run.heldUntil, run.place = a.request.Pattern, a.claimed.Add(lease.TTL), notQueued
	if a.reading != nil {
		run.sketch = a.reading.AppendSketch(run.smallSketch[:0], a.sketchKey())
	}
	run.context.begin(ctx, run)
	run.handler = &run.context
	return run
}

// endContext ends the handler's context.
func (r *Run) endContext() {
	r.context.end(nil)
	if r.endTransaction != nil {
		r.endTransaction()
	}
}

// Context returns the handler's context. It carries the values of Begin's
// context and a deadline that was set there, the lease, and the marks of
// package failure. It is not cancelled when the client goes away; it is when
// the lease is lost (cause ErrLeaseLost), at the policy's MaxRun (cause
// ErrRunTooLong), and by Finish.
func (r *Run) Context() context.Context { return r.handler }

// Lease returns the lease that the run holds.
func (r *Run) Lease() Lease { return r.lease }

// record shows the run to duplicates in this process as the store would.
func (r *Run) record() *Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	record := &Record{State: InProgress, Fingerprint: r.lease.Fingerprint, Attempt: r.lease.Attempt, LeaseLeft: r.lease.TTL}
	if r.result != nil {
		record.State, record.Status = r.result.State, r.result.Status
		record.Header, record.Body, record.Sketch = r.result.Header, r.result.Body, r.result.Sketch
	}
	return record
}

// marked adds what the handler has marked so far.
func (r *Run) marked(o failure.Outcome) failure.Outcome {
	retryable, executed, _ := r.marks.Read()
	o.Retryable = o.Retryable || retryable
	o.Executed = o.Executed || executed
	return o
}

// isKept reports whether the run was settled with an answer.
func (r *Run) isKept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result != nil
}

// settledWith makes the answer known to duplicates in this process.
func (r *Run) settledWith(stored *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = stored
}

// nextWake is when the lease is to be renewed, or the end of MaxRun if that is
// earlier.
func (r *Run) nextWake(renewal time.Time) time.Time {
	if end := r.started.Add(r.subject.route.policy.MaxRun); end.Before(renewal) {
		return end
	}
	return renewal
}

// renew is called every third of the lease's time, and at MaxRun. Most handlers
// are done before the first.
func (r *Run) renew() {
	if time.Since(r.started) >= r.subject.route.policy.MaxRun {
		r.report(Event{Result: ResultRunTooLong, Err: ErrRunTooLong})
		r.context.end(ErrRunTooLong)
		return
	}
	next, err := r.extend()
	switch {
	case err == nil:
	case errors.Is(err, ErrLeaseLost):
		// Somebody else has the key: from now on the store decides about it.
		r.engine.live.forget(r)
		r.lose(err)
		return
	case next <= 0:
		// Somebody else may have it. The handler still runs, so that this process
		// goes on to refuse its duplicates.
		r.lose(fmt.Errorf("%w: it could not be renewed in time: %w", ErrLeaseLost, err))
		return
	default:
		r.report(Event{Result: ResultStoreError, Err: err})
	}
	r.engine.renewals.add(r, r.nextWake(time.Now().Add(next)))
}

// lose tells the handler that it does not hold the lease any more.
func (r *Run) lose(why error) {
	r.report(Event{Result: ResultLeaseLost, Err: why})
	r.context.end(ErrLeaseLost)
}

// extend renews the lease once and returns when to renew it again: in the end,
// when the store cannot be reached, not before the lease may have ended there.
func (r *Run) extend() (next time.Duration, err error) {
	r.atStore.Lock()
	defer r.atStore.Unlock()
	if r.settled {
		return r.lease.TTL, nil // an answer that streams: only MaxRun is left to watch
	}
	asked := time.Now()
	timeout := min(r.subject.route.policy.StoreTimeout, r.lease.TTL/3)
	err = callStore(context.WithoutCancel(&r.context), timeout, func(ctx context.Context) error {
		return r.engine.store.Extend(ctx, r.lease, r.lease.TTL)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.heldUntil = asked.Add(r.lease.TTL)
		return r.lease.TTL / 3, nil
	}
	return min(time.Until(r.heldUntil), r.lease.TTL/10), err
}

// holdsLease reports whether the lease is certain not to have ended.
func (r *Run) holdsLease() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.heldUntil)
}

// close ends the run: its context and its place among the engine's work.
func (r *Run) close() {
	r.engine.renewals.remove(r)
	r.endContext()
	r.engine.live.end()
}

// handBack gives up a run whose outcome stays unknown: the key is abandoned
// again at once, and not only when the lease ends.
func (r *Run) handBack() {
	r.atStore.Lock()
	defer r.atStore.Unlock()
	r.settled = true
	ctx := context.WithoutCancel(&r.context)
	err := callStore(ctx, r.subject.route.policy.StoreTimeout, func(ctx context.Context) error {
		return r.engine.store.Extend(ctx, r.lease, time.Millisecond)
	})
	if err != nil { // the lease then ends by itself
		r.report(Event{Result: ResultStoreError, Err: err})
	}
	r.engine.live.forget(r)
	r.close()
}

// routePattern returns the route's pattern, after taking down a better one: a
// router that runs inside the guard finds it after the run has begun.
func (r *Run) routePattern(found string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found != "" {
		r.pattern = found
	}
	return r.pattern
}

func (r *Run) report(event Event) {
	event.subject, event.Route, event.Observed = r.subject, r.routePattern(""), r.subject.route.observes
	event.Attempt = r.lease.Attempt
	event.Duration = time.Since(r.started)
	r.engine.observer.Observe(&r.context, event)
}
