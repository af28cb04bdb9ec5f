package core

import (
	"context"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Decision tells the caller of Begin to run the handler, or to respond without the
// handler. At most one field is set. Without a set field, run the handler without
// protection: the request has no key and its policy requires none, or the store is
// unavailable and the policy is FailOpen.
type Decision struct {
	// Run is the right to run the handler, which must end in Engine.Finish.
	Run *Run
	// Record holds the response to replay.
	Record *storage.Record
	// Problem is the error response to send.
	Problem *problem.Problem
}

// begin decides about the attempt, and waits where the policy says so.
func (a *attempt) begin(ctx context.Context) Decision {
	defer a.leave()
	for round := 0; ; round++ {
		decision, localRun := a.decide(ctx)
		concurrent := decision.Problem != nil && decision.Problem.Code == problem.InProgress
		if !concurrent || a.route.observes || !a.waitTurn(ctx, localRun, round) {
			a.reportDecision(ctx, decision, localRun)
			return decision
		}
	}
}

// decide makes one decision from the runs of this process and the store's record.
// The second result is this process's run of the key, or nil.
func (a *attempt) decide(ctx context.Context) (Decision, *Run) {
	a.failure = nil // of an earlier round
	hold, refusal := a.shared.ledger.BeginClaim(&a.digest)
	if hold != nil {
		return a.decideByRecord(hold.Record()), runOf(hold)
	}
	if refusal != "" {
		return Decision{Problem: problem.New(refusal, "")}, nil
	}
	defer a.shared.ledger.EndClaim(&a.claim)
	// The late release of an earlier round's claim must not release the claim of this round.
	a.claimant.context, a.claimant.made = ctx, false
	a.claim.Request, a.claim.Call, a.claim.Timeout = a.claimant, &a.call, a.route.policy.StoreTimeout
	record, err := a.shared.ledger.Make(ctx, &a.claim)
	switch {
	case err != nil:
		return a.storeFailed(ctx, err), nil
	case record != nil:
		if record.Abandoned() {
			a.report(ctx, &event.Event{Result: event.LeaseExpired, Attempt: record.Attempt})
		}
		reportOtherProgram(ctx, a, &record.Origin)
		return a.decideByRecord(record), nil
	default:
		if a.shared.ledger.Limiter != nil && a.claim.Lease.Attempt == 1 && !a.tooOld {
			if refusal := admit(ctx, a); refusal != nil {
				return *refusal, nil
			}
		}
		return a.start(ctx), nil
	}
}

// The Err of events about a request that its scope's limit refuses.
var (
	errInFlight  = cause.New("oncekey: the scope has as many keys in flight as WithScopeLimit allows")
	errPerMinute = cause.New("oncekey: the scope has used as many new keys in this minute as WithScopeLimit allows")
)

// admit returns the refusal of a first attempt that was just granted, or nil: its scope may run
// one more key.
func admit(ctx context.Context, a *attempt) *Decision {
	admission, err := a.shared.ledger.Admit(ctx, &a.claim, limitedScope(a.identity))
	if err != nil {
		failed := a.storeFailed(ctx, err)
		return &failed
	}
	if admission.Reached == 0 {
		return nil
	}
	a.failure = errInFlight
	if admission.Reached == storage.ReachedNewKeys {
		a.failure = errPerMinute
	}
	refusal := problem.New(problem.ScopeLimited, "")
	refusal.RetryAfter = max(refusal.RetryAfter, admission.Wait)
	return &Decision{Problem: refusal}
}

// storeFailed decides without the store. FailOpen does not apply in six cases. The key is
// older than the policy's KeyAge. The record is unreadable, now or ever, or was in
// progress in an earlier round, or the claim's lease has ended before the store replied: then
// a handler may have run or may be running. Or this process lacks a right at the store, or
// the store can never keep the claim, which are wrong configurations and no outages.
func (a *attempt) storeFailed(ctx context.Context, err error) Decision {
	a.report(ctx, &event.Event{Result: event.StoreError, Err: err})
	a.failure = err
	closed := rules.StaysClosed(err)
	switch {
	case a.waited && !closed:
		return Decision{Problem: problem.New(problem.InProgress, "")}
	case a.route.policy.OnStoreError == policy.FailOpen && !closed && !a.tooOld:
		return Decision{}
	default:
		return Decision{Problem: problem.New(problem.StoreUnavailable, "")}
	}
}

// decideByRecord decides for a request that does not hold the lease.
func (a *attempt) decideByRecord(record *storage.Record) Decision {
	a.found = record
	asked := rules.Asked{Repeats: a.repeats(record), Observes: a.route.observes, Refuses: a.route.policy.OnAbandoned.Refuses()}
	if !asked.Repeats {
		a.sketch = record.Sketch
	}
	if code := rules.Decide(record, asked); code != "" {
		return Decision{Problem: problem.New(code, "")}
	}
	return Decision{Record: record}
}

// repeats reports whether the request is a retry of the record's request. Equal bytes
// need no fingerprint.
func (a *attempt) repeats(record *storage.Record) bool {
	return a.bytes.Repeats(record.Digest) || a.fingerprint() == record.Fingerprint
}

// start makes the run of a lease that was just acquired.
func (a *attempt) start(ctx context.Context) Decision {
	lease := &a.claim.Lease
	if a.tooOld {
		if isNew := !lease.TookOver && lease.Steps == ""; isNew {
			a.shared.ledger.Undo(ctx, &a.claim)
			return Decision{Problem: a.keyTooOld()}
		}
		p := &a.route.policy
		lease.Retain, lease.Remember = p.LockTTL+p.TTL, p.Remember // from the first renewal on
	}
	run, refusal := newRun(ctx, a)
	if refusal != "" {
		run.context.end(nil)
		a.shared.ledger.GiveBack(ctx, &a.claim)
		return Decision{Problem: problem.New(refusal, "")}
	}
	if lease.TookOver {
		a.report(ctx, &event.Event{Result: event.LeaseExpired, Attempt: lease.Attempt - 1})
		if find := a.route.policy.OnAbandoned.RecoverFunc(); find != nil && !a.route.observes {
			if record, refusal := recoverAbandoned(run, find); record != nil || refusal != nil {
				return Decision{Record: record, Problem: refusal}
			}
		}
	}
	if a.route.policy.Transactional {
		handler, err := run.hold.BeginTransaction()
		if err != nil {
			run.endUnused(err)
			return a.storeFailed(ctx, err)
		}
		run.handler = handler
	}
	return Decision{Run: run}
}

// newRun returns a run of the claim's lease, unless its hold cannot begin.
func newRun(ctx context.Context, a *attempt) (run *Run, refusal string) {
	run, buffer := a.alloc()
	run.identity = a.identity
	if reading := a.parsed(); reading != nil {
		run.sketch = slices.Clip(reading.AppendSketch(buffer, a.sketchKey())) // more of the buffer is the response's
	}
	run.context.begin(ctx, run)
	run.handler = &run.context
	return run, a.shared.ledger.Begin(&run.hold, (*holder)(run), &a.claim, &a.digest, &a.route.policy, a.request.Pattern)
}

// waitTurn waits for a concurrent request to end. It reports false when the policy's
// Wait or the request has ended, and when too many requests wait.
func (a *attempt) waitTurn(ctx context.Context, localRun *Run, round int) bool {
	left := a.route.policy.Wait - (time.Since(a.shared.began) - a.started)
	if left <= 0 || !a.takePlace() {
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

// takePlace reports whether the request may wait. It keeps its place between the rounds,
// until the decision.
func (a *attempt) takePlace() bool {
	if !a.waits && !a.shared.waiters.begin(&a.digest) {
		a.failure = errTooManyWaiters
		return false
	}
	a.waits = true
	return true
}

// leave ends the attempt of a request that Begin has decided about, or whose
// RecoverFunc has panicked.
func (a *attempt) leave() {
	a.forget()
	if a.waits {
		a.shared.waiters.end(&a.digest)
		a.waits = false
	}
}

// reportDecision reports the decision about a request.
func (a *attempt) reportDecision(ctx context.Context, d Decision, localRun *Run) {
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
		if a.shared.explain {
			d.Problem.Differs, d.Problem.Others = happened.Differs, happened.Others
		}
	}
	a.report(ctx, &happened)
}

func resultOfCode(code string) event.Result {
	switch code {
	case problem.InProgress, problem.KeyReused, problem.NotReplayable, problem.KeyExpired, problem.OutcomeUnknown, problem.ScopeLimited:
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
func (a *attempt) differences(localRun *Run) (names []string, others, missing int) {
	if a.sketch == nil && localRun != nil {
		a.sketch = localRun.sketch
	}
	reading := a.parsed()
	if reading == nil {
		return nil, 0, 0
	}
	return reading.Differences(a.sketch, a.sketchKey())
}
