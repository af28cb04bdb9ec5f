package explore

import (
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
)

// problem judges the engine's own responses.
func (j *judge) problem(r *run) {
	if r.shown.Status == brokenStatus {
		j.report(BrokenProblem, "r%d gets the half response of a ProblemWriter that panicked", r.id)
	}
	code := ""
	if r.shown.has(Problem) {
		code = r.shown.Text
	}
	if r.rolledBack != (code == problem.RolledBack) {
		j.report(RollbackHidden, "r%d is shown %d %s", r.id, r.shown.Status, code)
	}
	switch code {
	case problem.KeyReused:
		j.reused(r)
	case problem.KeyExpired:
		j.keyExpired(r)
	case problem.OutcomeUnknown:
		j.outcomeUnknown(r)
	case problem.StoreUnavailable, problem.NotConfirmed, problem.InProgress:
		j.again(r, code)
	}
}

// again: a client gets a temporary problem only while its cause lasts.
func (j *judge) again(r *run, code string) {
	switch {
	case j.unreadable(r.key):
	case r.probing && code == problem.StoreUnavailable && j.plan.real.unsteady: // too busy for any call
	case r.probing:
		j.report(KeyBlocked, "the probe r%d gets %s", r.id, code)
	case code == problem.InProgress:
		if j.plan.quiet() && r.stopped == nil {
			j.waited(r)
		}
	case j.plan.quiet(), code == problem.NotConfirmed && !r.faulty && len(j.plan.Jumps) == 0:
		j.report(Unavailable, "r%d gets 503 %s although nothing failed", r.id, code)
	}
}

// escaped: only a panic of a handler, or of a callback in its place, reaches the
// server.
func (j *judge) escaped(r *run) {
	if r.shown == nil || r.shown.Err == nil {
		return
	}
	handlers := r.stopped != nil && r.stopped.has(Panicked)
	if !handlers && r.broke&(1<<InScope|1<<InRecoverFunc) == 0 {
		j.report(PanicEscapes, "the server of r%d recovers a panic: %v", r.id, r.shown.Err)
	}
}

// panics: an event reports each panic, except an Observer's own.
func (j *judge) panics() {
	broke, reported := 0, 0
	for _, f := range j.history.Facts {
		switch {
		case f.Kind == Broke && Callback(f.N) != InObserver:
			broke++
		case f.Kind == Observed && f.Text == string(event.CallbackPanicked):
			reported++
		}
	}
	if reported < broke {
		j.report(PanicUnreported, "%d callbacks panicked, and events report %d", broke, reported)
	}
}

// reused: 422 requires a different payload under the key. If pods differ in
// ExcludeFields, different bytes are enough.
func (j *judge) reused(r *run) {
	rolling := j.plan.rolling()
	for _, other := range j.order {
		if other.sent == nil || other.key != r.key || other == r || other.noKey() {
			continue
		}
		a, b := j.body(r), j.body(other)
		if a.Payload != b.Payload || a.Nonce != b.Nonce && !j.plan.Pods[0].Exclude || rolling && a != b {
			return
		}
	}
	rule := WronglyReused
	if rolling {
		rule = RollingReused
	}
	j.report(rule, "r%d gets 422, and no other payload was sent under its key", r.id)
}

// body is the payload of a request. A probe repeats the payload of the key's first
// request.
func (j *judge) body(r *run) Body {
	if r.plan != nil {
		return r.plan.Body
	}
	for i := range j.plan.Requests {
		if j.plan.Requests[i].Key == r.key {
			return j.plan.Requests[i].Body
		}
	}
	return Body{}
}

// waited: a duplicate that waits longer than the handler runs gets the replay.
func (j *judge) waited(r *run) {
	wait := j.plan.Policy.Wait
	if wait == 0 {
		return
	}
	until := r.sent.At + wait - 500*time.Millisecond
	for _, other := range j.order {
		if other.key == r.key && other != r && other.started != nil && other.started.At < r.shown.At &&
			(other.stopped == nil || other.stopped.At > until) {
			return // a handler was still running, or another had begun
		}
	}
	if j.askedBetween(r.key, r.sent.At, r.shown.At) {
		return
	}
	if r.shown.At < until {
		j.report(WaitNoReplay, "r%d gets 409 after %v, and the policy's Wait is %v", r.id, r.shown.At-r.sent.At, wait)
		return
	}
	j.report(WaitNoReplay, "r%d waits until %v in vain: no handler of its key runs any more", r.id, r.shown.At)
}
