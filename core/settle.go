package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// errHandlerPanicked is the Err of events about a handler's panic.
var errHandlerPanicked = cause.New("oncekey: the handler panicked")

// Response is the response of a handler.
type Response struct {
	// Status is the HTTP status. Zero means 200, as in net/http.
	Status int
	// Header and Body must not be changed after Finish, because the engine keeps both.
	Header storage.Header
	Body   []byte
	// Unreplayable says that the response was sent in a way that cannot be repeated.
	// Only its status is kept.
	Unreplayable bool
}

// Finish settles and ends the run. It stores the response, or releases the key for the
// next request. The policy's Classifier, or else failure.Classify, decides from the
// outcome, to which Finish adds the handler's marks.
//
// An error means that the response must not be shown to the client:
//
//   - ErrLeaseLost: another attempt holds the key.
//   - ErrNotConfirmed: the store did not confirm the response, and this process may
//     have lost its lease; or the reply to a transaction's commit was lost. The
//     engine continues to settle in the background, and a retry gets the result.
//   - storage.ErrRolledBack: the database refused the commit. The key is released.
//
// Finish returns nil when the store refuses the response for good
// (storage.ErrNotStorable): the store then remembers that the request has finished, and
// retries get 409 not_replayable. It also returns nil when the store is unavailable while the lease is held. The client
// gets the response, and the engine stores the response in the background and renews
// the lease until then.
//
// Finish returns within twice the policy's StoreTimeout, because Finish may wait for a
// renewal first. A refused response takes one StoreTimeout more. Finish takes no context,
// so that a client's disconnect cannot interrupt the settlement.
func (e *Engine) Finish(run *Run, outcome failure.Outcome, response Response) error {
	return e.finish(run, run.conclude(&outcome), outcome, response)
}

// conclude ends the renewals and the marks of a run whose handler has returned, and
// returns its class. A response that depends on the class is made after it. A Classifier
// that ends its goroutine ends the run.
func (r *Run) conclude(outcome *failure.Outcome) failure.Class {
	classified := false
	defer func() {
		if !classified {
			r.close()
		}
	}()
	if r.stopRenewing() {
		failure.MarkUncertain(&r.context, "the handler returned during a step")
	}
	if outcome.Panicked && outcome.Err == nil {
		outcome.Err = errHandlerPanicked
	}
	r.marks.Seal()
	class := r.classify(*outcome)
	classified = true
	return class
}

// finish is Finish for a run that is concluded.
func (e *Engine) finish(run *Run, class failure.Class, outcome failure.Outcome, response Response) error {
	defer run.close()
	return e.settle(run, class, outcome, response)
}

// settle is Finish for a run of this class, whose handler may still be running. The run
// takes no more marks, and its lease is not renewed any more.
func (e *Engine) settle(run *Run, class failure.Class, outcome failure.Outcome, response Response) error {
	retain := run.retention(run.subject.route.policy.TTL)
	done, stored := event.Event{Status: cmp.Or(response.Status, outcome.Status), Panicked: outcome.Panicked, Err: outcome.Err}, (*storage.Result)(nil)
	switch class {
	case failure.ClassCache:
		run.storing = storedResult(&run.subject.route.policy, response)
		run.subject.route.redactions.Apply(&run.storing)
		run.storing.Retain, run.storing.Remember = retain, run.subject.route.policy.Remember
		run.storing.Sketch = run.sketch
		stored = &run.storing
		done.Result = run.resultStored(stored.State)
		run.reportUnusedTransaction(outcome, done.Status)
	default:
		_, done.Reason = run.marks.Read(outcome)
		done.Result = run.withoutResult(class)
	}
	if stored == nil {
		run.rollback()
	}
	return e.settleAtStore(run, done, stored)
}

// withoutResult decides about the key of a run without a response to store, and
// returns the event for it. A run that took over an abandoned key leaves it abandoned,
// unless the policy's RecoverFunc found no effect: the outcome of the earlier attempt
// is still unknown.
func (r *Run) withoutResult(class failure.Class) event.Result {
	r.uncertain = class == failure.ClassUncertain || r.lease.TookOver && !r.cleared || r.hasUnknownStep()
	switch {
	case r.uncertain:
		return event.Uncertain
	case class == failure.ClassRetryable:
		return event.Retryable
	default:
		return event.DeleteKey
	}
}

// classify calls the policy's Classifier with the handler's marks, and failure.Classify
// if the Classifier panics.
func (r *Run) classify(outcome failure.Outcome) (class failure.Class) {
	outcome, _ = r.marks.Read(outcome)
	defer func() {
		if err := panicked.Error("Classifier", recover()); err != nil {
			r.report(event.Event{Result: event.CallbackPanicked, Err: err})
			class = failure.Classify(outcome)
		}
	}()
	return r.subject.route.policy.Classify(outcome)
}

// settleAtStore settles the run by one store call within StoreTimeout, and by a second one
// if the store refuses the response for good. An error means that the response must not be
// shown. After a failure the background continues.
func (e *Engine) settleAtStore(run *Run, done event.Event, stored *storage.Result) error {
	now := e.clock.Now()
	if stored != nil {
		run.finished = now.Wall
	}
	calledAt := now.Monotonic
	err := e.settleWithin(calledAt.Add(run.subject.route.policy.StoreTimeout), run, stored)
	if run.tx == nil && run.leaveOut(&stored, &done, err) {
		err = e.settleWithin(time.Now().Add(run.subject.route.policy.StoreTimeout), run, stored)
	}
	latency := time.Since(calledAt)
	switch {
	case err == nil:
		run.confirm(stored)
		e.live.forget(run)
		done.StoreLatency = latency
		run.report(done)
		return nil
	case errors.Is(err, storage.ErrLeaseLost):
		e.live.forget(run)
		run.report(event.Event{Result: event.LeaseLost, Err: err, StoreLatency: latency, Final: true})
		if stored == nil { // a response that is not stored may be shown
			return nil
		}
		return err
	case stored != nil && run.tx != nil:
		return e.notCommitted(run, err)
	case errors.Is(err, storage.ErrNotStorable):
		return e.giveUp(run, stored, err)
	}
	return e.deferSettlement(run, done, stored, event.Event{Result: event.Deferred, Err: err, StoreLatency: latency})
}

// settleWithin settles the run by one call at the store, which ends at the deadline.
func (e *Engine) settleWithin(deadline time.Time, run *Run, stored *storage.Result) error {
	call := run.settlement()
	defer call.Release()
	return e.storeOrRelease(call.Detach(&run.context, deadline), run, stored)
}

// deferSettlement continues a settlement in the background. Within the lease no other
// process holds the key, and the response may be shown. After the lease another attempt
// may store a different response.
func (e *Engine) deferSettlement(run *Run, done event.Event, stored *storage.Result, deferred event.Event) error {
	mayShow := stored == nil || run.holdsLease()
	if !mayShow {
		deferred.Code = problem.NotConfirmed
	}
	run.report(deferred)
	e.settleLater(run, done, stored, mayShow)
	if !mayShow {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, deferred.Err)
	}
	return nil
}

// settlement returns the context for a settling call. The first context is a field of
// the run, which saves an allocation.
func (r *Run) settlement() *lazycontext.Context {
	if r.called {
		return new(lazycontext.Context)
	}
	r.called = true
	return &r.call
}

// storeOrRelease stores the result. If stored is nil, it gives the key up (see release).
func (e *Engine) storeOrRelease(ctx context.Context, run *Run, stored *storage.Result) error {
	lease := run.currentLease()
	switch {
	case stored == nil:
		return e.release(ctx, lease, run.uncertain)
	case run.tx != nil:
		return run.tx.Commit(ctx, lease, *stored)
	default:
		return e.store.Complete(ctx, lease, *stored)
	}
}

// notCommitted ends a run with a failed commit, by releasing the key. If the
// transaction was committed and only the reply was lost, the release has no effect, and
// the next request gets the response. A handler that has ended the transaction by itself
// may have committed its writes without the response, so its key is left abandoned.
func (e *Engine) notCommitted(run *Run, cause error) error {
	run.tx = nil
	class := failure.ClassDeleteKey
	if errors.Is(cause, storage.ErrTransactionEnded) {
		class = failure.ClassUncertain
	}
	released := event.Event{Result: run.withoutResult(class), Err: cause}
	if errors.Is(cause, storage.ErrRolledBack) {
		_ = e.settleAtStore(run, released, nil) // settleAtStore reports and repeats failures
		return cause
	}
	run.report(event.Event{Result: event.NotConfirmed, Code: problem.NotConfirmed, Err: cause})
	e.settleLater(run, released, nil, false)
	return fmt.Errorf("%w: %w", ErrNotConfirmed, cause)
}

// settleUnused releases the key of a run whose handler could not begin.
func (e *Engine) settleUnused(run *Run, cause error) {
	defer run.close()
	run.stopRenewing()
	_ = e.settleAtStore(run, event.Event{Result: run.withoutResult(failure.ClassDeleteKey), Err: cause}, nil) // settleAtStore reports and repeats failures
}

// settleLater repeats the call until success, the end of the budget, or the end of
// Shutdown's context. Until then this process keeps the run, so that its duplicates
// get the response if mayShow is set. The lease of a run with a response is renewed,
// so that no other process takes the key over.
func (e *Engine) settleLater(run *Run, done event.Event, stored *storage.Result, mayShow bool) {
	if mayShow {
		run.show(stored, false)
	}
	run.deferResult()
	e.live.addUnsettled(1)
	e.inBackground(func(ctx context.Context) {
		defer e.live.addUnsettled(-1)
		defer e.live.forget(run)
		ctx, cancel := context.WithTimeout(ctx, e.settleBudget)
		defer cancel()
		stored, err := e.keepSettling(ctx, run, stored, &done)
		switch lost := errors.Is(err, storage.ErrLeaseLost); {
		case err == nil:
			run.confirm(stored)
			run.report(done)
		case lost && !(mayShow && stored != nil): // no client was shown the response
			run.report(event.Event{Result: event.LeaseLost, Err: err, Final: true})
		default:
			run.reportLost(stored, err)
		}
	})
}

// keepSettling repeats the call until the result is final, and returns the result that it
// has stored. Meanwhile the lease is renewed if there is a response to store. The lease is
// not renewed for a release: if only the reply of a release was lost, a later Extend would
// claim the key again.
func (e *Engine) keepSettling(ctx context.Context, run *Run, stored *storage.Result, done *event.Event) (*storage.Result, error) {
	timeout := run.subject.route.policy.StoreTimeout
	if stored != nil {
		again := *stored // duplicates may be reading the first
		again.Repeated, stored = true, &again
	}
	for try := 0; sleep(ctx, settleBackoff(try)); try++ {
		settle := func(ctx context.Context) error { return e.storeOrRelease(ctx, run, stored) }
		err := callStore(ctx, timeout, settle)
		if run.leaveOut(&stored, done, err) {
			err = callStore(ctx, timeout, settle)
		}
		if err == nil || isFinal(err) {
			return stored, err
		}
		if stored != nil && run.leaseLeft() < run.lease.TTL*2/3 {
			calledAt := e.clock.Now()
			renewal := callStore(ctx, timeout, func(ctx context.Context) error {
				return e.store.Extend(ctx, run.currentLease(), run.lease.TTL)
			})
			if renewal == nil { // the next round shows whether another attempt holds the key
				run.heldFrom(calledAt)
			}
		}
	}
	return stored, context.Cause(ctx)
}

// settleBackoff is short, so that a store that recovers gets the response before the
// lease ends and another process can claim the key.
func settleBackoff(try int) time.Duration {
	return backoff(try, 20*time.Millisecond, 500*time.Millisecond)
}

// storedResult returns the part of a response that the store keeps.
func storedResult(p *policy.Policy, response Response) storage.Result {
	if response.Status == 0 {
		response.Status = http.StatusOK
	}
	result := storage.Result{State: stateOf(response.Status), Status: response.Status, Retain: p.TTL}
	header := storedHeader(p, response.Header)
	size := int64(len(response.Body))
	for _, field := range header {
		size += int64(len(field.Name) + len(field.Value))
	}
	if response.Unreplayable || size > p.MaxResponseBytes {
		result.State = storage.Unreplayable
		return result
	}
	result.Header, result.Body = header, response.Body
	return result
}

// stateOf returns the state of a kept response.
func stateOf(status int) storage.State {
	if status >= http.StatusBadRequest {
		return storage.Failed
	}
	return storage.Completed
}

// storedHeader removes fields that the policy does not keep, such as fields of one
// connection, one moment or one browser.
func storedHeader(p *policy.Policy, header storage.Header) storage.Header {
	nominated := connectionOptions(header)
	dropped := func(f storage.Field) bool {
		return !p.Keeps(strings.TrimPrefix(f.Name, http.TrailerPrefix)) || !wire.IsValidField(f) || nominated != "" && nominates(nominated, f.Name)
	}
	if !slices.ContainsFunc(header, dropped) {
		return header
	}
	return slices.DeleteFunc(slices.Clone(header), dropped)
}

// connectionOptions returns the joined values of the Connection fields. These values
// name more fields of one connection (RFC 9110, section 7.6.1).
func connectionOptions(header storage.Header) (options string) {
	for _, f := range header {
		if strings.EqualFold(f.Name, "Connection") {
			options += f.Value + ","
		}
	}
	return options
}

// nominates reports whether a list of connection options contains the name.
func nominates(options, name string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if strings.EqualFold(strings.TrimSpace(option), strings.TrimPrefix(name, http.TrailerPrefix)) {
			return true
		}
	}
	return false
}

// resultStored returns the event result for a response stored in this state. For an
// observed run, the result is the one that a guard would have caused.
func (r *Run) resultStored(as storage.State) event.Result {
	switch {
	case as == storage.Unreplayable && !r.wouldKeep:
		return event.Unreplayable
	case as == storage.Failed, as == storage.Unreplayable && r.storing.Status >= http.StatusBadRequest:
		return event.Failed
	default:
		return event.Completed
	}
}
