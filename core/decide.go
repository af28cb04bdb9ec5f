package core

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// Decision tells the caller of Begin to run the handler, or to respond without the
// handler. At most one field is set. Without a set field, run the handler without
// protection: the store is unavailable, and the policy is FailOpen.
type Decision struct {
	// Run is the right to run the handler, which must end in Engine.Finish.
	Run *Run
	// Record holds the response to replay.
	Record *storage.Record
	// Problem is the error response to send.
	Problem *problem.Problem
}

// Begin decides whether a request runs the handler. The values and the deadline of
// ctx reach the handler, and the cancellation of ctx only ends a Wait. The values may be
// read after Finish (see Do). A nil route means the default policy.
//
// Serve and Do call Begin and Finish. Call both yourself to guard another kind of
// request.
func (e *Engine) Begin(ctx context.Context, route *Route, request Request) Decision {
	if route == nil {
		route = e.defaults
	}
	a := admit(route)
	a.request = request
	e.setSubject(a)
	a.digest = e.digest(&a.request)
	a.storageKey, a.keyHash = hex.EncodeToString(a.digest[:]), event.KeyHash(request.Key)
	return e.begin(ctx, a)
}

func (e *Engine) begin(ctx context.Context, a *admission) Decision {
	defer e.leave(a)
	for round := 0; ; round++ {
		decision, localRun := e.decide(ctx, a)
		concurrent := decision.Problem != nil && decision.Problem.Code == problem.InProgress
		if !concurrent || a.route.observes || !e.waitTurn(ctx, a, localRun, round) {
			e.reportDecision(ctx, a, decision, localRun)
			return decision
		}
	}
}

// decide makes one decision from the runs of this process and the store's record.
// The second result is this process's run of the key, or nil.
func (e *Engine) decide(ctx context.Context, a *admission) (Decision, *Run) {
	a.failure = nil // of an earlier round
	localRun, refusal := e.live.find(&a.digest)
	if localRun != nil {
		return decideByRecord(a, localRun.record()), localRun
	}
	if refusal != "" {
		return Decision{Problem: problem.New(refusal, "")}, nil
	}
	record, err := e.store.find(ctx, a.digest, a.bytes)
	if err == nil && (record == nil || isSealed(record)) { // a claim reports a sealed record
		if !e.live.beginClaim() {
			return Decision{Problem: problem.New(problem.ShuttingDown, "")}, nil
		}
		defer e.live.end() // when the claim's run or its release counts instead
		record, err = e.acquire(ctx, a)
	}
	switch {
	case err != nil:
		return e.storeFailed(ctx, a, err), nil
	case record != nil:
		if record.Abandoned() {
			e.report(ctx, a, event.Event{Result: event.LeaseExpired, Attempt: record.Attempt})
		}
		return decideByRecord(a, record), nil
	default:
		return e.resume(ctx, a), nil
	}
}

// decideByRecord decides for a request that does not hold the lease.
func decideByRecord(a *admission, record *storage.Record) Decision {
	a.found = record
	switch {
	case !a.repeats(record):
		a.sketch = record.Sketch
		return Decision{Problem: problem.New(problem.KeyReused, "")}
	case record.State == storage.Completed || record.State == storage.Failed:
		return Decision{Record: record}
	case record.State == storage.Unreplayable && a.route.observes: // observing stores no responses
		return Decision{Record: record}
	case record.State == storage.Unreplayable:
		return Decision{Problem: problem.New(problem.NotReplayable, "")}
	case record.State == storage.Expired:
		return Decision{Problem: problem.New(codeOfTombstone(record), "")}
	case record.Abandoned() && a.route.policy.OnAbandoned.Refuses():
		return Decision{Problem: problem.New(problem.OutcomeUnknown, "")}
	default:
		return Decision{Problem: problem.New(problem.InProgress, "")}
	}
}

// codeOfTombstone returns the problem for the late retry of a run that had finished, or of
// a key that was abandoned until its record expired.
func codeOfTombstone(record *storage.Record) string {
	if record.Status == 0 {
		return problem.OutcomeUnknown
	}
	return problem.KeyExpired
}

// start makes the run of a lease that was just acquired.
func (e *Engine) start(ctx context.Context, a *admission) Decision {
	lease := &a.lease
	run := newRun(ctx, e, a)
	if refusal := e.live.add(run); refusal != "" {
		// The engine is shutting down, or another run of the key has not ended in this
		// process: the store has lost its claim, or has just left its key abandoned. The
		// engine gives the unused lease back.
		run.endContext()
		e.releaseClaim(a)
		return Decision{Problem: problem.New(refusal, "")}
	}
	run.wakeAt(a.claimed, a.claimed.Monotonic.Add(lease.TTL/3))
	if lease.TookOver {
		e.report(ctx, a, event.Event{Result: event.LeaseExpired, Attempt: lease.Attempt - 1})
		if find := a.route.policy.OnAbandoned.RecoverFunc(); find != nil && !a.route.observes {
			if decision := e.recoverAbandoned(run, find); decision.Run == nil {
				return decision
			}
		}
	}
	if err := e.beginTransaction(run); err != nil {
		e.settleUnused(run, err)
		return e.storeFailed(ctx, a, err)
	}
	return Decision{Run: run}
}

// beginTransaction begins the transaction of a run on a transactional route. The
// policy's StoreTimeout bounds the call, and MaxRun bounds the transaction.
func (e *Engine) beginTransaction(run *Run) error {
	if !run.subject.route.policy.Transactional {
		return nil
	}
	ctx, cancel := context.WithCancel(&run.context)
	tooLate := time.AfterFunc(run.subject.route.policy.StoreTimeout, cancel)
	handler, tx, err := e.store.BeginTransaction(ctx, run.lease)
	if err == nil && !tooLate.Stop() {
		run.tx = tx
		run.rollback()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return fmt.Errorf("begin a transaction: %w", err)
	}
	run.handler, run.tx, run.endTransaction = handler, tx, cancel
	return nil
}

// waitTurn waits for a concurrent request to end. It reports false when the policy's
// Wait or the request has ended, and when too many requests wait.
func (e *Engine) waitTurn(ctx context.Context, a *admission, localRun *Run, round int) bool {
	left := a.route.policy.Wait - time.Since(a.started)
	if left <= 0 {
		return false
	}
	if !e.takePlace(a) {
		return false
	}
	a.closeReading()
	var ended <-chan struct{}
	if localRun != nil && localRun.context.Err() == nil {
		ended = localRun.context.Done()
		localRun.waiting.Add(1)
		defer localRun.waiting.Add(-1)
	} else {
		left = min(left, backoff(round, 25*time.Millisecond, 250*time.Millisecond))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done(): // the client has disconnected
		return false
	}
	a.waited = true
	return true
}

// reportDecision reports the decision about a request.
func (e *Engine) reportDecision(ctx context.Context, a *admission, d Decision, localRun *Run) {
	happened := event.Event{StoreLatency: a.storeLatency, Err: a.failure}
	switch {
	case d.Run != nil:
		happened.Result, happened.Attempt = event.Execute, d.Run.lease.Attempt
	case d.Record != nil:
		happened.Result, happened.Attempt, happened.Trace = event.Replay, d.Record.Attempt, d.Record.Origin.Trace
		happened.Status = d.Record.Status
	case d.Problem == nil:
		happened.Result = event.Unprotected
	default:
		happened.Code, happened.Status = d.Problem.Code, d.Problem.Status
		happened.Result = resultOfCode(d.Problem.Code)
		if a.found != nil {
			happened.Attempt, happened.Holder = a.found.Attempt, a.found.Origin.Holder
		}
	}
	if happened.Result == event.KeyReused {
		happened.Differs, happened.Others, happened.Missing = a.differences(localRun)
		if e.explain {
			d.Problem.Differs, d.Problem.Others = happened.Differs, happened.Others
		}
	}
	e.report(ctx, a, happened)
}

func resultOfCode(code string) event.Result {
	switch code {
	case problem.InProgress, problem.KeyReused, problem.NotReplayable, problem.KeyExpired, problem.OutcomeUnknown:
		return event.Result(code) // these results are named after their codes
	case problem.StoreUnavailable, problem.ShuttingDown:
		return event.Unavailable
	default:
		return event.Refused
	}
}

// The most common mismatch is an honest retry with a new timestamp. A finished record
// keeps a sketch of its request, so that the engine can name the members that differ.
// A sketch consists of short hashes, keyed by the idempotency key, which is not stored.

// differences returns the members that differ from the key's first request: the
// request of localRun, or of the record. For a request in flight in another process
// there is no sketch, and the result is empty.
func (a *admission) differences(localRun *Run) (names []string, others, missing int) {
	if a.sketch == nil && localRun != nil {
		a.sketch = localRun.sketch
	}
	reading := a.parsed()
	if reading == nil {
		return nil, 0, 0
	}
	return reading.Differences(a.sketch, a.sketchKey())
}
