package core

import (
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
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// errHandlerPanicked is the Err of the events of a run that panicked.
var errHandlerPanicked = cause.New("oncekey: the handler panicked")

// Answer is what a handler answered.
type Answer struct {
	// Status is the HTTP status; zero is 200, as it is for net/http.
	Status int
	// Header and Body are kept by the engine: do not change them after Finish.
	Header storage.Header
	Body   []byte
	// Unreplayable says that the answer went out in a way that cannot be
	// repeated. Only its status is kept.
	Unreplayable bool
}

// Finish settles the run and ends it: the response is stored, or the key is released
// for the next request, as failure.Classify or the policy's own Classifier says
// of the outcome; the handler's marks are added to it here.
//
// An error means that the response must not be shown to the client:
//
//   - ErrLeaseLost: another attempt holds the key by now.
//   - ErrNotConfirmed: the store did not confirm the response, and this process may
//     have lost its lease; or the reply to a transaction's commit was lost. The
//     engine goes on to settle in the background, and a retry learns the result.
//   - storage.ErrRolledBack: the database refused the commit. The key is released.
//
// Finish returns nil when the store is unavailable while the lease is held: the
// client gets the response, and the engine stores it in the background, keeping
// the lease alive until then.
//
// Finish takes no context, because the client's has no part in it. It returns within
// twice the policy's StoreTimeout: a renewal that is under way may come first.
func (e *Engine) Finish(run *Run, outcome failure.Outcome, answer Answer) error {
	defer run.close()
	return e.settle(run, outcome, answer)
}

// settle is Finish for a run whose handler may go on to run.
func (e *Engine) settle(run *Run, outcome failure.Outcome, answer Answer) error {
	run.marks.Seal()
	outcome = run.marked(outcome)
	if outcome.Panicked && outcome.Err == nil {
		outcome.Err = errHandlerPanicked
	}
	run.stopRenewing()
	done, stored := event.Event{Err: outcome.Err}, (*storage.Result)(nil)
	switch class := run.classify(outcome); class {
	case failure.ClassCache:
		run.storing = storedResult(&run.subject.route.policy, answer)
		run.storing.Sketch = run.sketch
		stored = &run.storing
		done.Result = run.resultStored(stored.State)
	default:
		_, done.Reason = run.marks.Read(outcome)
		done.Result = run.withoutResult(class)
	}
	if stored == nil {
		run.rollback()
	}
	return e.settleAtStore(run, done, stored)
}

// withoutResult decides what becomes of the key of a run that has no response to
// store, and returns the event that says so. A run that took over an abandoned key
// leaves it abandoned, because the outcome of the attempt before is still unknown;
// unless the policy's RecoverFunc said that nothing happened.
func (r *Run) withoutResult(class failure.Class) event.Result {
	r.uncertain = class == failure.ClassUncertain || r.lease.TookOver && !r.cleared
	switch {
	case r.uncertain:
		return event.Uncertain
	case class == failure.ClassRetryable:
		return event.Retryable
	default:
		return event.DeleteKey
	}
}

// classify asks the policy. A Classifier that panics is replaced by the default, so
// that a response is kept or a key released by a known rule.
func (r *Run) classify(outcome failure.Outcome) (class failure.Class) {
	defer func() {
		if err := panicOf("Classifier", recover()); err != nil {
			r.report(event.Event{Result: event.CallbackPanicked, Err: err})
			class = failure.Classify(outcome)
		}
	}()
	return r.subject.route.policy.Classify(outcome)
}

// settleAtStore makes the one call that settles, with a deadline of its own. It decides
// whether the response may be shown, and what is left to do in the background.
func (e *Engine) settleAtStore(run *Run, done event.Event, stored *storage.Result) error {
	calledAt := time.Now()
	call := run.settlement()
	err := e.storeOrRelease(call.Detach(&run.context, calledAt.Add(run.subject.route.policy.StoreTimeout)), run, stored)
	call.Release()
	latency := time.Since(calledAt)
	switch {
	case err == nil:
		run.show(stored, true)
		e.live.forget(run)
		done.StoreLatency = latency
		run.report(done)
		return nil
	case errors.Is(err, storage.ErrLeaseLost):
		e.live.forget(run)
		run.report(event.Event{Result: event.LeaseLost, Err: err, StoreLatency: latency})
		if stored == nil { // nothing was to be stored: the client may see this response
			return nil
		}
		return err
	case stored != nil && run.tx != nil:
		return e.notCommitted(run, err)
	}
	// Within the lease no other process has the key, and the response stands. After
	// that another attempt may store a different one, so that only the store can tell.
	deferred := event.Event{Result: event.Deferred, Err: err, StoreLatency: latency}
	mayShow := stored == nil || run.holdsLease()
	if !mayShow {
		deferred.Code = problem.NotConfirmed
	}
	run.report(deferred)
	e.settleLater(run, done, stored, mayShow)
	if !mayShow {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, err)
	}
	return nil
}

// settlement returns the context for a call that settles: a part of the run, for the
// first one.
func (r *Run) settlement() *lazycontext.Context {
	if r.called {
		return new(lazycontext.Context)
	}
	r.called = true
	return &r.call
}

// storeOrRelease settles: it stores the result if there is one, and else releases the
// key or leaves it abandoned.
func (e *Engine) storeOrRelease(ctx context.Context, run *Run, stored *storage.Result) error {
	switch {
	case stored == nil && run.uncertain:
		return e.store.Extend(ctx, run.lease, 0)
	case stored == nil:
		return e.store.Release(ctx, run.lease)
	case run.tx != nil:
		return run.tx.Commit(ctx, run.lease, *stored)
	default:
		return e.store.Complete(ctx, run.lease, *stored)
	}
}

// notCommitted ends a run whose commit failed: the key is released if nothing was
// committed. If something was, because only the reply was lost, a release changes
// nothing, and the next request finds the response.
func (e *Engine) notCommitted(run *Run, cause error) error {
	run.tx = nil
	released := event.Event{Result: run.withoutResult(failure.ClassDeleteKey), Err: cause}
	if errors.Is(cause, storage.ErrRolledBack) {
		_ = e.settleAtStore(run, released, nil) // what fails is reported, and repeated
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
	_ = e.settleAtStore(run, event.Event{Result: run.withoutResult(failure.ClassDeleteKey), Err: cause}, nil) // what fails is reported, and repeated
}

// settleLater repeats the call until it succeeds, the budget ends, or Shutdown
// waits no longer. The run stays known to this process until then: a duplicate that
// comes here finds the response, if it stands; the lease is renewed, so that another
// process does not take the key over.
func (e *Engine) settleLater(run *Run, done event.Event, stored *storage.Result, mayShow bool) {
	if mayShow {
		run.show(stored, false)
	}
	e.live.addUnsettled(1)
	e.inBackground(func(ctx context.Context) {
		defer e.live.addUnsettled(-1)
		defer e.live.forget(run)
		ctx, cancel := context.WithTimeout(ctx, e.settleBudget)
		defer cancel()
		err := e.keepSettling(ctx, run, stored)
		switch lost := errors.Is(err, storage.ErrLeaseLost); {
		case err == nil:
			run.show(stored, true)
			run.report(done)
		case lost && !(mayShow && stored != nil): // no client was shown the response
			run.report(event.Event{Result: event.LeaseLost, Err: err})
		case stored != nil:
			run.report(event.Event{Result: event.AnswerLost, Err: err})
		default:
			run.report(event.Event{Result: event.StoreError, Err: err})
		}
	})
}

// keepSettling repeats the call until the store's word is final. The lease is kept
// alive meanwhile if there is a response to store. It is not for a release: an Extend
// that comes after a release whose reply was lost would claim the key again.
func (e *Engine) keepSettling(ctx context.Context, run *Run, stored *storage.Result) error {
	timeout := run.subject.route.policy.StoreTimeout
	for try := 0; sleep(ctx, settleBackoff(try)); try++ {
		err := callStore(ctx, timeout, func(ctx context.Context) error { return e.storeOrRelease(ctx, run, stored) })
		if err == nil || errors.Is(err, storage.ErrLeaseLost) || errors.Is(err, storage.ErrStoreForbidden) {
			return err
		}
		if stored != nil && run.leaseLeft() < run.lease.TTL*2/3 {
			calledAt := e.now()
			renewal := callStore(ctx, timeout, func(ctx context.Context) error {
				return e.store.Extend(ctx, run.lease, run.lease.TTL)
			})
			if renewal == nil { // the next round tells whether another attempt has the key
				run.heldFrom(calledAt)
			}
		}
	}
	return context.Cause(ctx)
}

// settleBackoff asks often, so that a store which comes back has the answer
// before another process can find the lease run out.
func settleBackoff(try int) time.Duration {
	return backoff(try, 20*time.Millisecond, 500*time.Millisecond)
}

// storedResult is what is kept of an answer.
func storedResult(p *policy.Policy, answer Answer) storage.Result {
	if answer.Status == 0 {
		answer.Status = http.StatusOK
	}
	result := storage.Result{State: storage.Completed, Status: answer.Status, Retain: p.TTL}
	if answer.Status >= http.StatusBadRequest {
		result.State = storage.Failed
	}
	header := storedHeader(p, answer.Header)
	size := int64(len(answer.Body))
	for _, field := range header {
		size += int64(len(field.Name) + len(field.Value))
	}
	if answer.Unreplayable || size > p.MaxResponseBytes {
		result.State = storage.Unreplayable
		return result
	}
	result.Header, result.Body = header, answer.Body
	return result
}

// storedHeader leaves out what belongs to one connection, one moment or one
// browser, unless the policy keeps it.
func storedHeader(p *policy.Policy, header storage.Header) storage.Header {
	nominated := connectionOptions(header)
	dropped := func(f storage.Field) bool {
		return !p.Keeps(strings.TrimPrefix(f.Name, http.TrailerPrefix)) || !isValidField(f) || nominated != "" && nominates(nominated, f.Name)
	}
	if !slices.ContainsFunc(header, dropped) {
		return header
	}
	return slices.DeleteFunc(slices.Clone(header), dropped)
}

// connectionOptions returns the values of the Connection fields, joined. They name
// fields that are for one connection as well: RFC 9110, section 7.6.1.
func connectionOptions(header storage.Header) (options string) {
	for _, f := range header {
		if strings.EqualFold(f.Name, "Connection") {
			options += f.Value + ","
		}
	}
	return options
}

// nominates reports whether a list of connection options has the name.
func nominates(options, name string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if strings.EqualFold(strings.TrimSpace(option), strings.TrimPrefix(name, http.TrailerPrefix)) {
			return true
		}
	}
	return false
}

// resultStored names what the run's answer was stored as; or would have been,
// where the run is only observed.
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
