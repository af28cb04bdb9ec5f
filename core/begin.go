package core

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

// Request is what the engine knows a request by.
type Request struct {
	// Scope names the principal, Method and Path the operation, Key the client's
	// intent. Together they name the record.
	Scope, Method, Path, Key string
	// Fingerprint tells a retry from another request under the same key.
	Fingerprint string
	// Pattern names the route in events: the pattern it was declared with.
	// Empty when it is not known.
	Pattern string
}

// Decision is what to do with a request. At most one of its fields is set; if
// none is, the store is unavailable and the policy says FailOpen: run the
// handler without protection.
type Decision struct {
	// Run is the right to run the handler, which must end in Engine.Finish.
	Run *Run
	// Record holds the answer to send again.
	Record *Record
	// Problem is the answer to send instead.
	Problem *Problem
}

// Begin decides what to do with a request. ctx is the request's: its values
// and its deadline reach the handler, its cancellation ends only a Wait.
//
// Package core's own Serve calls Begin and Finish; call them yourself to guard
// something that is not a net/http handler.
func (e *Engine) Begin(ctx context.Context, route *Route, request Request) Decision {
	return e.begin(ctx, &admission{
		subject:    subject{route: route, request: request, instance: e.instance},
		started:    time.Now(),
		storageKey: StorageKey(request.Scope, request.Method, request.Path, request.Key),
		token:      NewToken(),
	})
}

// admission is one request on its way to a decision.
type admission struct {
	subject
	started      time.Time
	storageKey   string
	hashed       fingerprint.Request // what the fingerprint was taken of
	sketch       []byte              // of the request that this one differs from
	token        Token
	call         callContext
	small        [512]byte // where small request bodies go
	claimed      time.Time // when the store was asked: no lease of its began before
	storeLatency time.Duration
}

func (e *Engine) begin(ctx context.Context, a *admission) Decision {
	for round := 0; ; round++ {
		decision, rival := e.decide(ctx, a)
		concurrent := decision.Problem != nil && decision.Problem.Code == CodeInProgress
		if !concurrent || a.route.observes || !a.waitTurn(ctx, rival, round) {
			e.reportDecision(ctx, a, decision, rival)
			return decision
		}
	}
}

// decide makes one decision by what this process and the store know now. For a
// concurrent request in this process it returns the rival too.
func (e *Engine) decide(ctx context.Context, a *admission) (Decision, *Run) {
	rival, refusal := e.live.find(a.storageKey)
	if rival != nil {
		return decideByRecord(a, rival.record()), rival
	}
	if refusal != "" {
		return Decision{Problem: problem(refusal, "")}, nil
	}
	lease, record, err := e.acquire(ctx, a)
	switch {
	case err != nil:
		return e.storeFailed(ctx, a, err), nil
	case record != nil:
		if record.Abandoned() {
			e.report(ctx, a, Event{Result: ResultLeaseExpired, Attempt: record.Attempt})
		}
		return decideByRecord(a, record), nil
	default:
		return e.start(ctx, a, lease), nil
	}
}

// decideByRecord decides for a request that does not hold the lease.
func decideByRecord(a *admission, record *Record) Decision {
	switch {
	case record.Fingerprint != a.request.Fingerprint:
		a.sketch = record.Sketch
		return Decision{Problem: problem(CodeKeyReused, "")}
	case record.State == Completed || record.State == Failed:
		return Decision{Record: record}
	case record.State == Unreplayable && a.route.observes: // which keeps no answers
		return Decision{Record: record}
	case record.State == Unreplayable:
		return Decision{Problem: problem(CodeNotReplayable, "")}
	case record.Abandoned() && a.route.policy.OnAbandoned.Refuses():
		return Decision{Problem: problem(CodeOutcomeUnknown, "")}
	default:
		return Decision{Problem: problem(CodeInProgress, "")}
	}
}

// start makes the run of a lease that was just acquired.
func (e *Engine) start(ctx context.Context, a *admission, lease Lease) Decision {
	run := newRun(ctx, e, a, lease)
	if refusal := e.live.add(run); refusal != "" {
		// The store had forgotten a claim that this process still holds, or the
		// engine began to shut down: the lease goes back unused.
		run.endContext()
		e.giveBack(a, lease)
		return Decision{Problem: problem(refusal, "")}
	}
	run.startRenewal()
	if lease.TookOver {
		e.report(ctx, a, Event{Result: ResultLeaseExpired, Attempt: lease.Attempt - 1})
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

// recoverAbandoned lets the policy find out what became of the attempt before.
func (e *Engine) recoverAbandoned(run *Run, find policy.RecoverFunc) Decision {
	known := false
	defer func() {
		if !known {
			run.handBack()
		}
	}()
	request := run.subject.request
	answer, err := find(run.Context(), policy.Abandoned{
		Key: request.Key, Scope: request.Scope,
		Method: request.Method, Path: request.Path, Attempt: run.lease.Attempt,
	})
	if err == nil && answer != nil && (answer.Status < http.StatusOK || answer.Status > 999) {
		err = errors.New("oncekey: the RecoverFunc's answer has no status from 200 to 999")
	}
	switch {
	case err != nil:
		run.report(Event{Result: ResultRecoverError, Err: err})
		return Decision{Problem: problem(CodeOutcomeUnknown, "")}
	case answer == nil:
		known = true
		return Decision{Run: run}
	}
	known = true
	result := Answer{Status: answer.Status, Header: headerChanges(nil, nil, answer.Header), Body: answer.Body}
	outcome := failure.Outcome{Status: answer.Status, Executed: true}
	if err := e.Finish(run, outcome, result); err != nil {
		return Decision{Problem: problem(CodeInProgress, "")}
	}
	return Decision{Record: run.record()}
}

// waitTurn waits for a concurrent request to end, and reports whether it is
// worth to look again.
func (a *admission) waitTurn(ctx context.Context, rival *Run, round int) bool {
	left := a.route.policy.Wait - time.Since(a.started)
	if left <= 0 {
		return false
	}
	var ended <-chan struct{}
	if rival != nil && rival.context.Err() == nil {
		ended = rival.context.Done()
	} else {
		left = min(left, backoff(round, 25*time.Millisecond, 250*time.Millisecond))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done(): // the client who waits is gone
		return false
	}
	return true
}

// errClaimTooSlow says that a lease may have ended before the store's reply came.
// Its holder asks once more, and the lease runs anew.
var errClaimTooSlow = errors.New("oncekey: the store took longer for the claim than the policy's LockTTL")

// acquire claims the key within the policy's StoreTimeout. The request's own
// cancellation does not reach the store: a claim that is cut off in flight
// would block the key.
func (e *Engine) acquire(ctx context.Context, a *admission) (Lease, *Record, error) {
	p := &a.route.policy
	claim := Claim{
		Key: a.storageKey, Token: a.token, Fingerprint: a.request.Fingerprint,
		TTL: p.LockTTL, Retain: p.LockTTL + p.TTL, TakeOver: !p.OnAbandoned.Refuses(),
	}
	a.claimed = time.Now()
	ctx = a.call.until(ctx, a.claimed.Add(p.StoreTimeout))
	defer a.call.release()
	const tries = 3
	for try := 0; ; try++ {
		lease, record, err := e.store.Acquire(ctx, claim)
		took := time.Since(a.claimed)
		a.storeLatency += took
		if err == nil && record == nil && took >= claim.TTL {
			err = errClaimTooSlow
		}
		if err == nil || errors.Is(err, ErrCorruptRecord) || errors.Is(err, ErrStoreFull) {
			return lease, record, err
		}
		// The same token finds its own claim if the failed call did apply.
		if try == tries-1 || !sleep(ctx, backoff(try, 10*time.Millisecond, 100*time.Millisecond)) {
			e.giveBack(a, Lease{Claim: claim, Attempt: 1})
			return Lease{}, nil, err
		}
		a.claimed = time.Now()
	}
}

// storeFailed decides without the store. A record that cannot be read is no
// outage: a handler may have run for it, so FailOpen does not apply.
func (e *Engine) storeFailed(ctx context.Context, a *admission, err error) Decision {
	e.report(ctx, a, Event{Result: ResultStoreError, Err: err})
	if a.route.policy.OnStoreError == policy.FailOpen && !errors.Is(err, ErrCorruptRecord) {
		return Decision{}
	}
	return Decision{Problem: problem(CodeStoreUnavailable, "")}
}

// giveBack releases, in the background, a claim that nothing ran under, so that
// it does not block its key until the lease runs out. It does so twice, because a
// claim that was cut off may reach the store after its release. It is a courtesy:
// while many of them wait for a broken store, more are not begun, and Shutdown
// waits for one try and no more.
func (e *Engine) giveBack(a *admission, lease Lease) {
	select {
	case e.givingBack <- struct{}{}:
	default:
		return
	}
	e.inBackground(func(ctx context.Context) {
		defer func() { <-e.givingBack }()
		again, cancel := context.WithTimeout(e.live.serving, lease.TTL)
		defer cancel()
		timeout := a.route.policy.StoreTimeout
		for try, released := 0, 0; released < 2; try++ {
			err := callStore(ctx, timeout, func(ctx context.Context) error { return e.store.Release(ctx, lease) })
			wait := settleBackoff(try)
			if err == nil {
				released++
				wait = timeout
			}
			if errors.Is(err, ErrLeaseLost) || !sleep(again, wait) {
				return
			}
		}
	})
}

// reportDecision reports a decision, once a request.
func (e *Engine) reportDecision(ctx context.Context, a *admission, d Decision, rival *Run) {
	event := Event{StoreLatency: a.storeLatency}
	switch {
	case d.Run != nil:
		event.Result, event.Attempt = ResultExecute, d.Run.lease.Attempt
	case d.Record != nil:
		event.Result, event.Attempt = ResultReplay, d.Record.Attempt
	case d.Problem == nil:
		event.Result = ResultUnprotected
	default:
		event.Code = d.Problem.Code
		event.Result = resultOfCode(d.Problem.Code)
	}
	if event.Result == ResultKeyReused {
		event.Differs, event.Missing = a.differences(rival)
		if e.explain {
			d.Problem.Differs = event.Differs
		}
	}
	e.report(ctx, a, event)
}

func resultOfCode(code string) EventResult {
	switch code {
	case CodeInProgress, CodeKeyReused, CodeNotReplayable, CodeOutcomeUnknown:
		return EventResult(code) // these results are named after their codes
	case CodeStoreUnavailable, CodeShuttingDown:
		return ResultUnavailable
	default:
		return ResultRefused
	}
}

func (e *Engine) report(ctx context.Context, a *admission, event Event) {
	event.subject, event.Route, event.Observed = &a.subject, a.request.Pattern, a.route.observes
	event.Duration = time.Since(a.started)
	e.observer.Observe(ctx, event)
}

// callStore gives one call at the store a deadline.
func callStore(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}

// inBackground runs work that outlives its request. Shutdown waits for it, and
// ends its context when it waits no longer.
func (e *Engine) inBackground(work func(ctx context.Context)) {
	e.live.begin()
	go func() {
		defer e.live.end()
		work(e.live.background)
	}()
}

// backoff grows from first to at most limit by doubling, with full jitter
// between half of it and all of it.
func backoff(try int, first, limit time.Duration) time.Duration {
	d := limit
	if try < 16 {
		d = min(limit, first<<try)
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter is no secret
}

// sleep waits, and reports false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
