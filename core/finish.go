package core

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// errHandlerPanicked is the Err of the events of a run that panicked.
var errHandlerPanicked = errors.New("oncekey: the handler panicked")

// Answer is what a handler answered.
type Answer struct {
	// Status is the HTTP status; zero is 200, as it is for net/http.
	Status int
	// Header and Body are kept by the engine: do not change them after Finish.
	Header Header
	Body   []byte
	// Unreplayable says that the answer went out in a way that cannot be
	// repeated. Only its status is kept.
	Unreplayable bool
}

// Finish settles the run and ends it: the answer is stored, or the key is freed
// for the next request, as failure.Classify or the policy's own Classifier says
// of the outcome; the handler's marks are added to it here.
//
// It returns ErrLeaseLost when the answer should have been stored but somebody
// else holds the key by now, and ErrNotConfirmed when a transaction's commit
// failed: then it must not be shown to the client. It returns nil when the store
// is unavailable otherwise: the client gets the answer, and the engine stores it
// in the background, keeping the lease alive until then.
//
// Finish takes no context: what the client does has no part in it. It returns
// within the policy's StoreTimeout, or twice that: after a renewal that was under
// way, or when the lease may have ended.
func (e *Engine) Finish(run *Run, outcome failure.Outcome, answer Answer) error {
	defer run.close()
	return e.settle(run, outcome, answer)
}

// settle is Finish for a run whose handler may go on to run.
func (e *Engine) settle(run *Run, outcome failure.Outcome, answer Answer) error {
	run.marks.Seal()
	outcome = run.marked(outcome)
	run.atStore.Lock() // waits for a renewal that is under way, at most StoreTimeout
	defer run.atStore.Unlock()
	run.settled = true
	if outcome.Panicked && outcome.Err == nil {
		outcome.Err = errHandlerPanicked
	}

	done, stored := Event{Err: outcome.Err}, (*Result)(nil)
	switch run.subject.route.policy.Classify(outcome) {
	case failure.ClassCache:
		run.storing = storedResult(&run.subject.route.policy, answer)
		run.storing.Sketch = run.sketch
		stored = &run.storing
		done.Result = run.resultStored(stored.State)
	case failure.ClassRetryable:
		_, _, done.Reason = run.marks.Read()
		done.Result = ResultRetryable
	default:
		done.Result = ResultDeleteKey
	}
	if stored == nil {
		run.rollback()
	}
	return e.settleOnce(run, done, stored)
}

// settleOnce makes the one call that settles, with a deadline of its own; if the
// store fails, it goes on in the background.
func (e *Engine) settleOnce(run *Run, done Event, stored *Result) error {
	asked := time.Now()
	err := e.callToSettle(run, stored, asked)
	done.StoreLatency = time.Since(asked)
	switch {
	case err == nil:
		run.settledWith(stored)
		run.report(done)
	case errors.Is(err, ErrLeaseLost):
		run.report(Event{Result: ResultLeaseLost, Err: err, StoreLatency: done.StoreLatency})
		if stored == nil {
			err = nil // nothing was to be stored: the client may see this answer
		}
	case stored != nil && run.tx != nil:
		return e.notConfirmed(run, err)
	default:
		run.settledWith(stored) // it stands, although the store does not have it yet
		run.report(Event{Result: ResultDeferred, Err: err, StoreLatency: done.StoreLatency})
		e.settleLater(run, done, stored)
		return nil
	}
	e.live.forget(run)
	return err
}

// callToSettle asks the store with a deadline. When that failed and the lease may
// have ended meanwhile, because this process was frozen or stalled, somebody else
// may have answered: it asks once more before the answer is shown.
func (e *Engine) callToSettle(run *Run, stored *Result, now time.Time) error {
	timeout := run.subject.route.policy.StoreTimeout
	err := e.askStore(run.call.Detach(&run.context, now.Add(timeout)), run, stored)
	run.call.Release()
	if err == nil || errors.Is(err, ErrLeaseLost) || run.tx != nil || run.holdsLease() {
		return err
	}
	return callStore(context.WithoutCancel(&run.context), timeout, func(ctx context.Context) error {
		return e.askStore(ctx, run, stored)
	})
}

// askStore settles: it stores what there is to store, or frees the key.
func (e *Engine) askStore(ctx context.Context, run *Run, stored *Result) error {
	switch {
	case stored == nil:
		return e.store.Release(ctx, run.lease)
	case run.tx != nil:
		return run.tx.Commit(ctx, run.lease, *stored)
	default:
		return e.store.Complete(ctx, run.lease, *stored)
	}
}

// settleLater repeats the call until it succeeds, the budget ends, or Shutdown
// waits no longer. The run stays known to this process until then, so that a
// duplicate that comes here finds the answer; the lease is renewed, so that
// another process does not take the key over.
func (e *Engine) settleLater(run *Run, done Event, stored *Result) {
	e.live.addUnsettled(1)
	e.inBackground(func(ctx context.Context) {
		defer e.live.addUnsettled(-1)
		defer e.live.forget(run)
		ctx, cancel := context.WithTimeout(ctx, e.settleBudget)
		defer cancel()
		err := e.keepSettling(ctx, run, stored)
		switch {
		case err == nil:
			run.report(done)
		case stored != nil:
			run.report(Event{Result: ResultAnswerLost, Err: err})
		case errors.Is(err, ErrLeaseLost):
			run.report(Event{Result: ResultLeaseLost, Err: err})
		default:
			run.report(Event{Result: ResultStoreError, Err: err})
		}
	})
}

func (e *Engine) keepSettling(ctx context.Context, run *Run, stored *Result) error {
	timeout := run.subject.route.policy.StoreTimeout
	renewed := time.Now()
	for try := 0; sleep(ctx, settleBackoff(try)); try++ {
		err := callStore(ctx, timeout, func(ctx context.Context) error { return e.askStore(ctx, run, stored) })
		if err == nil || errors.Is(err, ErrLeaseLost) {
			return err
		}
		if time.Since(renewed) > run.lease.TTL/3 {
			renewed = time.Now()
			_ = callStore(ctx, timeout, func(ctx context.Context) error { // the next round tells whether it helped
				return e.store.Extend(ctx, run.lease, run.lease.TTL)
			})
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
func storedResult(p *policy.Policy, answer Answer) Result {
	if answer.Status == 0 {
		answer.Status = http.StatusOK
	}
	result := Result{State: Completed, Status: answer.Status, Retain: p.TTL}
	if answer.Status >= http.StatusBadRequest {
		result.State = Failed
	}
	header := storedHeader(p, answer.Header)
	size := int64(len(answer.Body))
	for _, field := range header {
		size += int64(len(field.Name) + len(field.Value))
	}
	if answer.Unreplayable || size > p.MaxResponseBytes {
		result.State = Unreplayable
		return result
	}
	result.Header, result.Body = header, answer.Body
	return result
}

// storedHeader leaves out what belongs to one connection, one moment or one
// browser, unless the policy keeps it.
func storedHeader(p *policy.Policy, header Header) Header {
	dropped := func(f Field) bool {
		return !isStored(p, f.Name) || !f.isValid()
	}
	if !slices.ContainsFunc(header, dropped) {
		return header
	}
	return slices.DeleteFunc(slices.Clone(header), dropped)
}

func isStored(p *policy.Policy, name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Date", "Set-Cookie":
		for _, keep := range p.KeepHeaders {
			if http.CanonicalHeaderKey(keep) == name {
				return true
			}
		}
		return false
	}
	return !policy.IsHopByHop(name)
}

// resultStored names what the run's answer was stored as; or would have been,
// where the run is only observed.
func (r *Run) resultStored(as State) EventResult {
	switch {
	case as == Unreplayable && !r.wouldKeep:
		return ResultUnreplayable
	case as == Failed, as == Unreplayable && r.storing.Status >= http.StatusBadRequest:
		return ResultFailed
	default:
		return ResultCompleted
	}
}
