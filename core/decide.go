package core

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
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
	hold, refusal := e.ledger.Find(&a.digest)
	if hold != nil {
		return decideByRecord(a, hold.Record()), runOf(hold)
	}
	if refusal != "" {
		return Decision{Problem: problem.New(refusal, "")}, nil
	}
	record, err := e.ledger.LookUp(ctx, a.digest, a.bytes)
	if err == nil && record == nil {
		if !e.ledger.BeginClaim() {
			return Decision{Problem: problem.New(problem.ShuttingDown, "")}, nil
		}
		defer e.ledger.EndClaim()
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
		return e.start(ctx, a), nil
	}
}

// acquire claims the key, or returns its record.
func (e *Engine) acquire(ctx context.Context, a *admission) (*storage.Record, error) {
	p := &a.route.policy
	a.fingerprint() // sets the storage key and the key's hash too
	// The token is new for each round of a wait. The late release of an earlier
	// round's claim must not release the claim of this round.
	a.claim.Call, a.claim.Timeout = &a.call, p.StoreTimeout
	a.claim.Lease.Claim = storage.Claim{
		Key: a.storageKey, Token: storage.NewToken(), Fingerprint: a.request.Fingerprint, Digest: a.bytes,
		TTL: p.LockTTL, Retain: p.LockTTL + p.TTL, Remember: p.Remember,
		Origin: e.origin(ctx, a), TakeOver: !p.OnAbandoned.Refuses(),
	}
	return e.ledger.Make(ctx, &a.claim)
}

// storeFailed decides without the store. FailOpen does not apply in four cases. The
// record is unreadable, now or ever, or was in progress in an earlier round: then a
// handler may have run or may be running. Or this process lacks a right at the store, or
// the store can never keep the claim, which are wrong configurations and no outages.
func (e *Engine) storeFailed(ctx context.Context, a *admission, err error) Decision {
	e.report(ctx, a, event.Event{Result: event.StoreError, Err: err})
	a.failure = err
	closed := rules.StaysClosed(err)
	switch {
	case a.waited && !closed:
		return Decision{Problem: problem.New(problem.InProgress, "")}
	case a.route.policy.OnStoreError == policy.FailOpen && !closed:
		return Decision{}
	default:
		return Decision{Problem: problem.New(problem.StoreUnavailable, "")}
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
	lease := &a.claim.Lease
	run, refusal := newRun(ctx, e, a)
	if refusal != "" {
		run.context.end(nil)
		e.ledger.GiveBack(&a.claim)
		return Decision{Problem: problem.New(refusal, "")}
	}
	if lease.TookOver {
		e.report(ctx, a, event.Event{Result: event.LeaseExpired, Attempt: lease.Attempt - 1})
		if find := a.route.policy.OnAbandoned.RecoverFunc(); find != nil && !a.route.observes {
			if decision := e.recoverAbandoned(run, find); decision.Run == nil {
				return decision
			}
		}
	}
	if a.route.policy.Transactional {
		handler, err := run.hold.BeginTransaction()
		if err != nil {
			run.endUnused(err)
			return e.storeFailed(ctx, a, err)
		}
		run.handler = handler
	}
	return Decision{Run: run}
}

// endUnused releases the key of a run whose handler could not begin.
func (r *Run) endUnused(why error) {
	defer r.hold.End()
	r.hold.Stop()
	fate := r.hold.Fate(failure.ClassDeleteKey)
	_ = r.hold.GiveUp(fate, event.Event{Result: rules.EventOf(fate, failure.ClassDeleteKey), Err: why}) // GiveUp reports and repeats failures
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
		localRun.hold.Waiting.Add(1)
		defer localRun.hold.Waiting.Add(-1)
	} else {
		left = min(left, ledger.Backoff(round, 25*time.Millisecond, 250*time.Millisecond))
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
	happened := event.Event{StoreLatency: a.claim.Latency, Err: a.failure}
	switch {
	case d.Run != nil:
		happened.Result, happened.Attempt = event.Execute, d.Run.hold.Lease.Attempt
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
