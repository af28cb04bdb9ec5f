package explore

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Violation is one promise that was broken.
type Violation struct {
	Rule Rule
	Text string
}

// judge is one judgement under way.
type judge struct {
	plan    *Plan
	history History
	order   []*run
	runs    map[int]*run
	found   []Violation
	hands   map[int]*hand // by the number of their operation
}

// Judge returns every promise that the history breaks.
func Judge(p *Plan, h History) []Violation {
	j := &judge{plan: p, history: h}
	j.order, j.runs = runsOf(p, h)
	if h.Stuck != "" {
		j.report(Stuck, "%s", h.Stuck)
	}
	j.hands = handsOf(h)
	j.operations()
	j.shutdowns()
	j.questions()
	j.limits()
	j.panics()
	for i, r := range j.order {
		j.single(r)
		for _, later := range j.order[i+1:] {
			j.pair(r, later)
		}
	}
	j.stored()
	return j.found
}

func (j *judge) report(rule Rule, format string, arguments ...any) {
	j.found = append(j.found, Violation{rule, fmt.Sprintf(format, arguments...)})
}

// single judges one request by itself.
func (j *judge) single(r *run) {
	if r.sent == nil {
		return
	}
	j.context(r)
	j.protection(r)
	j.stepsOf(r)
	j.escaped(r)
	j.unconfirmed(r)
	j.recovery(r)
	j.limited(r)
	if j.plan.kills(r.pod) {
		return // a killed process has no duties
	}
	j.events(r)
	j.responds(r)
	j.calls(r)
	j.lastingErrors(r)
	j.unsettled(r)
	j.ages(r)
	j.settlement(r)
	j.refusals(r)
	if r.shown == nil || r.shown.Kind != Shown {
		return
	}
	j.problem(r)
	if r.shown.has(Replayed) {
		j.replay(r)
	}
}

func (p *Plan) kills(pod int) bool {
	return slices.ContainsFunc(p.Outages, func(o Outage) bool { return o.Pod == pod && o.Kind == Kill })
}

// protection: a handler keeps its lease while it runs. Faults and MaxRun are the
// only exceptions.
func (j *judge) protection(r *run) {
	leftAbandoned := len(r.begun[Abandon]) > 0 && r.begun[Abandon][0] <= r.taken
	if r.taken > 0 && j.plan.quiet() && !j.tooLong(r) && !leftAbandoned {
		j.report(LeaseNotRenewed, "r%d lost its key at %v although nothing failed", r.id, r.taken)
	}
	switch {
	case r.started == nil, r.noKey(), j.plan.Policy.Observe:
	case !r.guarded():
		j.unprotected(r)
	case !j.plan.Policy.Transactional && j.wall(r.started.At) > r.heldUntil(r.started.At)+j.slack():
		j.report(StartsLate, "the handler of r%d starts at %v, and its lease had ended", r.id, r.started.At)
	}
}

// unprotected: a handler runs without a lease only if the policy allows this, the
// store fails, and no other handler of the key is known.
func (j *judge) unprotected(r *run) {
	failed := r.faulty || j.plan.real.unsteady // a claim that outlasts its lease has failed too
	if !failed || !j.plan.Policy.FailOpen {
		j.report(Unprotected, "the handler of r%d runs without protection: a call of it failed: %v, FailOpen: %v", r.id, failed, j.plan.Policy.FailOpen)
	}
	if r.seen != nil {
		j.report(UnprotectedBeside, "the handler of r%d runs without protection, and the store had said that its key is %s", r.id, r.seen.Text)
	}
	if r.noClaim != nil {
		j.report(UnprotectedBeside, "the handler of r%d runs without protection, and the store had said: %v", r.id, r.noClaim)
	}
	if other := j.runBeside(r); other != nil {
		j.report(UnprotectedBeside, "the handler of r%d runs without protection, and it had waited for r%d in the same process", r.id, other.id)
	}
}

// runBeside returns a run of the same process and key whose handler was running when
// the request arrived, or nil. A run that learned of its lost lease does not count:
// from then on the store decides about the key.
func (j *judge) runBeside(r *run) *run {
	for _, other := range j.order {
		if lost := other.learnedLoss(); lost > 0 && lost < r.sent.At {
			continue
		}
		runs := other.guarded() && other.started.At < r.sent.At && (other.settled == 0 || other.settled > r.sent.At+j.plan.real.slack)
		if runs && other != r && other.pod == r.pod && other.key == r.key && j.plan.frozen(r.pod) == 0 {
			return other
		}
	}
	return nil
}

// wall is the time by a wall clock that is never set back.
func (j *judge) wall(at time.Duration) time.Duration { return at + j.plan.jumped(Suspension, at) }

// tooLong reports whether the handler may have passed MaxRun.
func (j *judge) tooLong(r *run) bool {
	return r.plan != nil && r.plan.duration()+4*j.plan.Policy.StoreTimeout+j.plan.frozen(r.pod) > j.plan.Policy.MaxRun
}

func (j *judge) events(r *run) {
	if r.decisions != 1 && !(r.decisions == 0 && r.broke&(1<<InScope|1<<InRecoverFunc) != 0) {
		j.report(DecisionEvents, "r%d has %d decision events", r.id, r.decisions)
	}
	mayLose := r.taken > 0 || j.tooLong(r) || j.changedByHand(r.key, r.granted(), r.endedAt)
	if r.executes && (r.ended == 0 || r.ended > 1 && j.plan.quiet() && !mayLose) {
		j.report(SettlementEvents, "r%d has %d settlement events", r.id, r.ended)
	}
}

// responds: a response arrives in time.
func (j *judge) responds(r *run) {
	y := &j.plan.Policy
	patience := y.Wait + j.plan.Find + j.plan.frozen(r.pod) + 12*y.StoreTimeout + 2*time.Second + j.plan.real.slack
	if r.plan != nil {
		patience += r.plan.duration()
	}
	switch {
	case r.shown == nil:
		j.report(NoResponse, "r%d was sent at %v and never gets a response", r.id, r.sent.At)
	case r.shown.Status > 0 && r.shown.Status < http.StatusOK:
		j.report(NoResponse, "r%d gets the status %d, which is no response", r.id, r.shown.Status)
	case r.shown.At-r.sent.At > patience:
		j.report(NoResponse, "r%d gets its response after %v, want at most %v", r.id, r.shown.At-r.sent.At, patience)
	}
}

// replay: a replay is the response of a run with the same payload.
func (j *judge) replay(r *run) {
	source := j.runs[r.shown.Source]
	if r.shown.Text == "handler_failed" && j.brokeDown(r.key) {
		return
	}
	if source == nil || j.plan.Policy.Observe {
		j.report(ReplayDiffers, "the replay to r%d is the response of no run", r.id)
		return
	}
	if r.shown.Text == recovered {
		return // a RecoverFunc does not know the payload, and its response is its own
	}
	j.expired(r, source)
	if j.body(r).Payload != j.body(source).Payload {
		j.report(ReplayOfOther, "r%d gets the response of r%d, which had another payload", r.id, source.id)
	}
	s := source.shown
	if s != nil && s.Kind == Shown && !s.has(Problem) && s.Source == source.id && !s.equals(r.shown) {
		j.report(ReplayDiffers, "r%d gets %d %q, and r%d got %d %q", r.id, r.shown.Status, r.shown.Text, source.id, s.Status, s.Text)
	}
}

// brokeDown reports whether a handler of the key failed, and its outcome is kept: after
// MarkExecuted, or because a list has the status. The store then keeps the engine's own
// response.
func (j *judge) brokeDown(key int) bool {
	return slices.ContainsFunc(j.order, func(r *run) bool {
		return r.stopped != nil && r.key == key && r.keeps(j.plan) && (r.stopped.has(Panicked) || r.stopped.has(Silent))
	})
}
