package core

import (
	"context"
	"errors"
	"net/http"
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
// else holds the key by now: then it must not be shown to the client. It
// returns nil when the store is unavailable: the client gets the answer, and
// the engine stores it in the background, keeping the lease alive until then.
//
// Finish takes no context: what the client does has no part in it. It returns
// within the policy's StoreTimeout, twice that if a renewal was under way.
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

	class := run.subject.route.policy.Classify(outcome)
	if class == failure.ClassCache {
		stored := storedResult(&run.subject.route.policy, answer)
		done := Event{Result: resultOfState(stored.State), Err: outcome.Err}
		return e.settleBy(run, done, &stored, func(ctx context.Context) error {
			return e.store.Complete(ctx, run.lease, stored)
		})
	}
	_, _, reason := run.marks.Read()
	done := Event{Result: ResultDeleteKey, Reason: reason, Err: outcome.Err}
	if class == failure.ClassRetryable {
		done.Result = ResultRetryable
	}
	err := e.settleBy(run, done, nil, func(ctx context.Context) error {
		return e.store.Release(ctx, run.lease)
	})
	if errors.Is(err, ErrLeaseLost) {
		return nil // nothing was to be stored: the client may see this answer
	}
	return err
}

// settleBy makes the one call that settles, with a deadline of its own; if the
// store fails, it goes on in the background. stored is what the call stores, nil
// if it frees the key.
func (e *Engine) settleBy(run *Run, done Event, stored *Result, call func(context.Context) error) error {
	asked := time.Now()
	ctx := context.WithoutCancel(run.ctx)
	err := callStore(ctx, run.subject.route.policy.StoreTimeout, call)
	done.StoreLatency = time.Since(asked)
	switch {
	case err == nil:
		run.settledWith(stored)
		run.report(done)
	case errors.Is(err, ErrLeaseLost):
		run.report(Event{Result: ResultLeaseLost, Err: err, StoreLatency: done.StoreLatency})
	default:
		run.settledWith(stored) // it stands, although the store does not have it yet
		run.report(Event{Result: ResultDeferred, Err: err, StoreLatency: done.StoreLatency})
		e.settleLater(run, done, call)
		return nil
	}
	e.live.forget(run)
	return err
}

// settleLater repeats the call until it succeeds, the budget ends, or Shutdown
// waits no longer. The run stays known to this process until then, so that a
// duplicate that comes here finds the answer; the lease is renewed, so that
// another process does not take the key over.
func (e *Engine) settleLater(run *Run, done Event, call func(context.Context) error) {
	e.live.addUnsettled(1)
	e.inBackground(func(ctx context.Context) {
		defer e.live.addUnsettled(-1)
		defer e.live.forget(run)
		ctx, cancel := context.WithTimeout(ctx, e.settleBudget)
		defer cancel()
		err := e.keepSettling(ctx, run, call)
		switch {
		case err == nil:
			run.report(done)
		case run.record().State != InProgress:
			run.report(Event{Result: ResultAnswerLost, Err: err})
		case errors.Is(err, ErrLeaseLost):
			run.report(Event{Result: ResultLeaseLost, Err: err})
		default:
			run.report(Event{Result: ResultStoreError, Err: err})
		}
	})
}

func (e *Engine) keepSettling(ctx context.Context, run *Run, call func(context.Context) error) error {
	timeout := run.subject.route.policy.StoreTimeout
	renewed := time.Now()
	for try := 0; sleep(ctx, settleBackoff(try)); try++ {
		err := callStore(ctx, timeout, call)
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
	kept := make(Header, 0, len(header))
	for _, field := range header {
		if isStored(p, field.Name) && validFieldName(field.Name) && validFieldValue(field.Value) {
			kept = append(kept, field)
		}
	}
	return kept
}

func isStored(p *policy.Policy, name string) bool {
	switch name {
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

func resultOfState(s State) EventResult {
	switch s {
	case Completed:
		return ResultCompleted
	case Failed:
		return ResultFailed
	default:
		return ResultUnreplayable
	}
}
