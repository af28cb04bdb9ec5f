package core

import (
	"context"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// Run is the right to run the handler of one key, once. It is made by
// Engine.Begin and must end in Engine.Finish, in a defer: a panic, too, is an
// end. The lease is renewed in the meantime.
type Run struct {
	engine  *Engine
	subject *subject
	started time.Time // when the request was admitted
	claimed time.Time // when the handler's time began, after a wait for another one
	lease   storage.Lease
	sketch  []byte // of the request; nil when there is none
	marks   failure.Marks
	context runContext
	handler context.Context // context, or one that carries the transaction as well
	// tx and endTransaction are nil unless the policy is transactional.
	tx             storage.Transaction
	endTransaction context.CancelFunc
	// cleared says that the policy's RecoverFunc found nothing of the attempts before.
	cleared bool
	// uncertain says that the key is to be left abandoned: a side effect may have
	// happened, in this attempt or in one that it took over.
	uncertain bool
	// wouldKeep says, of a run that is only observed, that a guard would have kept
	// its answer.
	wouldKeep bool
	// execution is nil unless the run is an HTTP handler's.
	execution *execution

	call    lazycontext.Context // of the settlement's first call
	called  bool
	storing storage.Result // what the settlement stores

	mu        sync.Mutex
	pattern   string          // the route's, as soon as it is known
	heldUntil moment          // when the lease ends at the earliest
	result    *storage.Result // shown to duplicates in this process; nil while there is none
	confirmed bool            // the store has the result
	settling  bool            // nothing is left to renew
	renewing  bool            // an Extend is under way, for which the settlement waits:
	renewed   sync.Cond
	cutOff    bool  // the handler's context has ended, by a lost lease or MaxRun
	lastError error // of the renewals

	// What follows is guarded by the engine's renewals.
	wake   time.Time // when renew is called
	place  int       // in the queue; negative: not there
	closed bool

	smallSketch [128]byte
}

func newRun(ctx context.Context, e *Engine, a *admission, lease storage.Lease) *Run {
	var run *Run
	if a.served {
		execution := new(execution)
		run, execution.run.execution = &execution.run, execution
	} else {
		run = new(Run)
	}
	run.engine, run.subject, run.started, run.lease = e, &a.subject, a.started, lease
	run.claimed, run.renewed.L = a.claimed.monotonic, &run.mu
	run.pattern, run.heldUntil, run.place = a.request.Pattern, a.claimed.add(lease.TTL), notQueued
	if a.reading != nil {
		run.sketch = a.reading.AppendSketch(run.smallSketch[:0], a.sketchKey())
	}
	run.context.begin(ctx, run)
	run.handler = &run.context
	return run
}

// Context returns the handler's context. It carries the values of Begin's
// context and a deadline that was set there, the lease, and the marks of
// package failure. It is not cancelled when the client goes away; it is when
// the lease is lost (cause ErrLeaseLost), at the policy's MaxRun (cause
// ErrRunTooLong), and by Finish.
func (r *Run) Context() context.Context { return r.handler }

// Lease returns the lease that the run holds.
func (r *Run) Lease() storage.Lease { return r.lease }

// record shows the run to duplicates in this process as the store would. A result
// that the store has not confirmed counts only within the lease: after that another
// process may have stored a different one.
func (r *Run) record() *storage.Record {
	held := r.holdsLease()
	r.mu.Lock()
	defer r.mu.Unlock()
	record := &storage.Record{
		State: storage.InProgress, Attempt: r.lease.Attempt, LeaseLeft: r.lease.TTL,
		Fingerprint: r.lease.Fingerprint, Digest: r.lease.Digest,
	}
	if r.result != nil && (r.confirmed || held) {
		record.State, record.Status = r.result.State, r.result.Status
		record.Header, record.Body, record.Sketch = r.result.Header, r.result.Body, r.result.Sketch
	}
	return record
}

// marked adds what the handler has marked so far.
func (r *Run) marked(o failure.Outcome) failure.Outcome {
	o, _ = r.marks.Read(o)
	return o
}

// isKept reports whether the run was settled with an answer.
func (r *Run) isKept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result != nil
}

// show makes a result known to duplicates in this process; nil: the key is released.
func (r *Run) show(result *storage.Result, confirmed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result, r.confirmed = result, confirmed
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

func (r *Run) report(event event.Event) {
	event.Subject, event.Route, event.Observed = &r.subject.event, r.routePattern(""), r.subject.route.observes
	event.Attempt = r.lease.Attempt
	event.Duration = time.Since(r.started)
	r.engine.observer.Observe(&r.context, event)
}

// rollback undoes what the handler of a transactional route wrote. Where that
// fails the connection is broken, and the database does it by itself.
func (r *Run) rollback() {
	if r.tx == nil {
		return
	}
	err := callStore(context.WithoutCancel(&r.context), r.subject.route.policy.StoreTimeout, r.tx.Rollback)
	if err != nil {
		r.report(event.Event{Result: event.StoreError, Err: err})
	}
	r.tx = nil
}

// abandon gives up a run whose outcome stays unknown: the key is abandoned
// again at once, and not only when the lease ends.
func (r *Run) abandon() {
	defer r.close()
	defer r.engine.live.forget(r)
	r.stopRenewing()
	ctx := context.WithoutCancel(&r.context)
	err := callStore(ctx, r.subject.route.policy.StoreTimeout, func(ctx context.Context) error {
		return r.engine.store.Extend(ctx, r.lease, 0)
	})
	if err != nil { // the lease then ends by itself
		r.report(event.Event{Result: event.StoreError, Err: err})
	}
}

// close ends the run: its context and its place among the engine's work.
func (r *Run) close() {
	r.engine.renewals.remove(r)
	r.endContext()
	r.engine.live.end()
}

// endContext ends the handler's context.
func (r *Run) endContext() {
	r.context.end(nil)
	if r.endTransaction != nil {
		r.endTransaction()
	}
}

// runContext is the handler's context: the values of the request's, and a
// deadline that middleware set; an end of its own, because the client's
// disconnect must not stop a handler half-way; and the run with its marks.
//
// It behaves like context.WithCancelCause over context.WithoutCancel, but creates its
// Done channel on first use. Most handlers never call Done: then it takes 0.05 µs and
// no allocation beside the run's, where package context takes 0.14 µs and 3
// (BenchmarkRunContext).
type runContext struct {
	run    *Run
	parent context.Context

	mu      sync.Mutex
	waiting context.Context // nil until somebody asks for Done, or there is a deadline
	cancel  context.CancelCauseFunc
	stop    context.CancelFunc // of the deadline
	ended   bool
}

type runKey struct{}

// begin makes c the context of a run of the request whose context is parent.
func (c *runContext) begin(parent context.Context, run *Run) {
	c.run, c.parent = run, parent
	if deadline, ok := parent.Deadline(); ok {
		var limited context.Context
		limited, c.stop = context.WithDeadline(context.WithoutCancel(parent), deadline)
		c.waiting, c.cancel = context.WithCancelCause(limited)
	}
}

// end ends the context; a nil cause is context.Canceled.
func (c *runContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause != nil {
		c.wait()
	}
	if c.ended = true; c.waiting != nil {
		c.cancel(cause)
	}
	if c.stop != nil {
		c.stop()
	}
}

// wait makes the context that can be waited for.
func (c *runContext) wait() context.Context {
	if c.waiting == nil {
		c.waiting, c.cancel = context.WithCancelCause(context.WithoutCancel(c.parent))
		if c.ended {
			c.cancel(nil)
		}
	}
	return c.waiting
}

func (c *runContext) Deadline() (time.Time, bool) {
	if c.stop == nil {
		return time.Time{}, false
	}
	return c.wait().Deadline() // made by begin
}

func (c *runContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait().Done()
}

// Err looks at the clocks as well, so that a handler on a machine that was suspended
// learns at once that its lease is over.
func (c *runContext) Err() error {
	if err := c.err(); err != nil {
		return err
	}
	c.run.loseInTime()
	return c.err()
}

func (c *runContext) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.waiting != nil:
		return c.waiting.Err()
	case c.ended:
		return context.Canceled
	default:
		return nil
	}
}

// Value asks the context that waits, so that package context finds that one and
// needs no goroutine to follow this.
func (c *runContext) Value(key any) any {
	if key == (runKey{}) {
		return c.run
	}
	if marks := c.run.marks.Value(key); marks != nil {
		return marks
	}
	c.mu.Lock()
	found := c.waiting
	c.mu.Unlock()
	if found == nil {
		found = context.WithoutCancel(c.parent)
	}
	return found.Value(key)
}
