package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/agenda"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// Run is the right to run the handler of one key, once. Engine.Begin returns a Run,
// and the caller must pass the Run to Engine.Finish in a defer, so that a panic ends
// the run too. The engine renews the lease until then.
type Run struct {
	engine  *Engine
	subject *subject
	claimed time.Time // when the key was claimed, after any wait: MaxRun starts here
	lease   storage.Lease
	sketch  []byte // of the request, or nil
	marks   failure.Marks
	context runContext
	handler context.Context // context, or its child with the transaction
	// steps are nil until the first step of the request's attempts.
	steps *stepLog
	// tx and endTransaction are nil unless the policy is transactional.
	tx             storage.Transaction
	endTransaction context.CancelFunc
	// cleared says that the policy's RecoverFunc found no effect of earlier attempts.
	cleared bool
	// uncertain says that the key is left abandoned: this attempt, or one that it took
	// over, may have had a side effect.
	uncertain bool
	// wouldKeep says for an observed run that a guard would have kept the response.
	wouldKeep bool
	// streams says that the response is sent while the handler runs. It is set before the
	// settlement.
	streams bool
	// execution is nil unless the run belongs to an HTTP handler.
	execution *execution

	call    lazycontext.Context // of the settlement's first call
	called  bool
	storing storage.Result // the result that the settlement stores
	// finished is the time of the settlement by the wall clock, or zero for a run without
	// a result.
	finished time.Time

	mu        sync.Mutex
	pattern   string          // the route's pattern, or "" until the router sets it
	heldUntil machine.Moment  // when the lease ends at the earliest
	result    *storage.Result // shown to duplicates in this process; nil: no result yet
	confirmed bool            // the store has the result
	keepFor   time.Duration   // see KeepFor; zero: for the policy's TTL
	final     bool            // KeepFor has no effect any more
	settling  bool            // the settlement has begun: no more renewals
	renewing  bool            // an Extend is under way; the settlement waits for renewed
	renewed   sync.Cond
	cutOff    bool         // the handler's context has ended, by a lost lease or MaxRun
	lastError error        // of the renewals
	deferred  time.Time    // when the result began to wait for the store, or zero
	waiting   atomic.Int32 // requests in waitTurn

	turn agenda.Entry // in the engine's renewals

	smallSketch [128]byte
}

func newRun(ctx context.Context, e *Engine, a *admission) *Run {
	var run *Run
	if a.served {
		execution := new(execution)
		run, execution.run.execution = &execution.run, execution
	} else {
		run = new(Run)
	}
	run.engine, run.subject, run.lease = e, a.subject, a.lease
	run.claimed, run.renewed.L = a.claimed.Monotonic, &run.mu
	run.pattern, run.heldUntil = a.request.Pattern, a.claimed.Add(a.lease.TTL)
	if reading := a.parsed(); reading != nil {
		run.sketch = reading.AppendSketch(run.smallSketch[:0], a.sketchKey())
	}
	run.steps = a.steps
	run.context.begin(ctx, run)
	run.handler = &run.context
	return run
}

// Context returns the handler's context, which has the values and the deadline of
// Begin's context, the lease, and the marks of package failure. A client's disconnect
// does not cancel the context, unless the response streams (see Engine.Serve). The
// context ends when the lease is lost (cause ErrLeaseLost), at the policy's MaxRun
// (cause ErrRunTooLong), and by Finish.
func (r *Run) Context() context.Context { return r.handler }

// Lease returns the lease that the run holds.
func (r *Run) Lease() storage.Lease { return r.lease }

// record returns the run's record for duplicates in this process, as the store would.
// A result that the store has not confirmed counts only within the lease, because
// after the lease another process may have stored a different result.
func (r *Run) record() *storage.Record {
	held := r.holdsLease()
	r.mu.Lock()
	defer r.mu.Unlock()
	record := &storage.Record{
		State: storage.InProgress, Attempt: r.lease.Attempt, LeaseLeft: r.lease.TTL,
		Fingerprint: r.lease.Fingerprint, Digest: r.lease.Digest,
		Origin: r.lease.Origin, Created: r.claimed.Round(0), // Round strips the monotonic reading
	}
	if r.result != nil && (r.confirmed || held) {
		record.State, record.Status = r.result.State, r.result.Status
		record.Header, record.Body, record.Sketch = r.result.Header, r.result.Body, r.result.Sketch
		record.Finished, record.Expires = r.finished, r.finished.Add(r.result.Retain)
	}
	return record
}

// isKept reports whether the run was settled with a response.
func (r *Run) isKept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result != nil
}

// expires returns the end of the response's retention, or zero if no response is kept.
func (r *Run) expires() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result == nil || r.result.State == storage.Unreplayable {
		return time.Time{}
	}
	return r.finished.Add(r.result.Retain)
}

// show sets the result for duplicates in this process. nil means a released key.
func (r *Run) show(result *storage.Result, confirmed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result, r.confirmed = result, confirmed
}

// deferResult notes that the result waits for the store from now on.
func (r *Run) deferResult() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deferred = r.engine.clock.Now().Monotonic
}

// routePattern returns the route's pattern, and first records found unless empty. A
// router inside the guard sets the pattern after the run has begun.
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
	r.subject.route.served(r.subject.request.Method, event.Route)
	event.Attempt, event.Record = r.lease.Attempt, r.lease.Key
	event.Duration = time.Since(r.subject.started)
	r.engine.observer.Observe(&r.context, event)
}

// rollback undoes the writes of a transactional handler. If the rollback fails, the
// connection is broken, and the database rolls back without a request.
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

// abandon ends a run with an unknown outcome: the key is abandoned again at once, and
// not only when the lease ends.
func (r *Run) abandon() {
	defer r.close()
	defer r.engine.live.forget(r)
	r.stopRenewing()
	ctx := context.WithoutCancel(&r.context)
	err := callStore(ctx, r.subject.route.policy.StoreTimeout, func(ctx context.Context) error {
		return r.engine.release(ctx, r.currentLease(), true)
	})
	if err != nil { // then the key is abandoned when the lease ends
		r.report(event.Event{Result: event.StoreError, Err: err})
	}
}

// close ends the run's context, and removes the run from the engine's work.
func (r *Run) close() {
	r.engine.renewals.Close(&r.turn)
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

// runContext is the handler's context. It has the values of the request's context, a
// deadline that middleware set, and the run with its marks. A client's disconnect does
// not end a runContext before follow, because it must not stop a handler half-way.
//
// It behaves like context.WithCancelCause over context.WithoutCancel, but creates its
// Done channel on first use. Most handlers never call Done, and the context then takes
// 0.05 µs and no allocation beside the run's. Package context takes 0.14 µs and 3
// (BenchmarkRunContext).
type runContext struct {
	run    *Run
	parent context.Context

	mu      sync.Mutex
	waiting context.Context // nil until the first Done, unless there is a deadline
	cancel  context.CancelCauseFunc
	stop    context.CancelFunc // of the deadline
	ended   bool
}

type runKey struct{}

// begin makes c the context of run, with the request's context as parent.
func (c *runContext) begin(parent context.Context, run *Run) {
	c.run, c.parent = run, parent
	if deadline, ok := parent.Deadline(); ok {
		var limited context.Context
		limited, c.stop = context.WithDeadline(context.WithoutCancel(parent), deadline)
		c.waiting, c.cancel = context.WithCancelCause(limited)
	}
}

// end ends the context. A nil cause means context.Canceled.
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

// wait returns the context behind Done, created on first use.
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

// Err also checks the clocks, so that a handler sees at once after a suspension of the
// machine that its lease has ended.
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

// Value reads from the context behind Done, if there is one: package context then
// recognizes that context and starts no goroutine to follow c.
func (c *runContext) Value(key any) any {
	if key == (runKey{}) || key == (stepKey{}) {
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
