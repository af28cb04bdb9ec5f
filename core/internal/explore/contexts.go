package explore

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

// slack covers events in one instant and the jitter of calls. A real machine needs
// more.
func (j *judge) slack() time.Duration { return time.Millisecond + j.plan.real.slack }

// context: a handler that checks its context, or waits for the context's end, acts
// only under its lease.
func (j *judge) context(r *run) {
	if !r.guarded() {
		return
	}
	j.stopped(r)
	if e := r.lost; e != nil && e.At >= r.started.At && r.goesOn(e.At) && (r.learnedLoss() == 0 || r.learnedLoss() > e.At) {
		j.inTime(r, e.At)
	}
	for _, e := range r.effects {
		if e.has(Careful) && !e.has(InTx) && r.goesOn(e.At) {
			j.careful(r, e)
		}
	}
	for _, e := range r.waited {
		if r.goesOn(e.At) {
			j.inTime(r, e.At)
			j.beside(r, ToldLate, e)
		}
	}
}

// goesOn reports whether the run is not settled at that time.
func (r *run) goesOn(at time.Duration) bool { return r.settled == 0 || at <= r.settled }

// careful: an effect right after a check of the context happens within the lease.
func (j *judge) careful(r *run, e *Fact) {
	if j.wall(e.At) > r.heldUntil(e.At)+j.slack() {
		j.report(EffectAfterLease, "r%d has a careful effect at %v, and its lease had ended by its own clocks", r.id, e.At)
	}
	if r.taken > 0 && e.At > r.taken+j.plan.real.slack && !j.plan.skips() {
		j.report(EffectBeside, "r%d has a careful effect at %v, and its key was taken over at %v", r.id, e.At, r.taken)
	}
	j.beside(r, EffectAfterLease, e)
}

// beside reports a handler that continues after its process learned of the lost
// lease, or after MaxRun.
func (j *judge) beside(r *run, rule Rule, e *Fact) {
	if at := r.learnedLoss(); at > 0 && e.At > at+j.slack() {
		j.report(rule, "r%d goes on at %v, and the store had said at %v that its lease is lost", r.id, e.At, at)
	}
	if e.At > r.asked[Acquire]+j.plan.Policy.MaxRun+j.slack() {
		j.report(MaxRunIgnored, "r%d goes on at %v", r.id, e.At)
	}
}

// learnedLoss is when the process learned from the store that the lease is lost, or
// zero.
func (r *run) learnedLoss() time.Duration {
	for _, c := range r.calls {
		if c.op != Release && c.op != Abandon && errors.Is(c.err, storage.ErrLeaseLost) { // these two may belong to an earlier claim
			return c.ended
		}
	}
	return 0
}

// inTime reports a handler whose context does not end in time with the lease.
func (j *judge) inTime(r *run, at time.Duration) {
	until, patience := r.heldUntil(at), j.slack()
	if j.plan.jumped(Suspension, at) > 0 {
		patience += time.Second
	}
	over := at - j.wall(at) + until
	for _, jump := range j.plan.Jumps {
		if jump.At <= at {
			over = max(over, jump.At)
		}
	}
	if j.wall(at) > until && at > over+patience {
		j.report(ToldLate, "r%d goes on until %v, and its lease had ended at %v", r.id, at, over)
	}
}

// stopped: the context ends with the lease, or at MaxRun, which counts from the claim.
func (j *judge) stopped(r *run) {
	e := r.stoppedBy
	if e == nil {
		return
	}
	after := e.At - r.asked[Acquire] + j.plan.frozen(r.pod) // the freeze may delay a claim
	switch {
	case errors.Is(e.Err, context.Canceled):
		j.report(StoppedByClient, "the context of r%d has ended, and its lease has not", r.id)
	case errors.Is(e.Err, core.ErrRunTooLong) && after < j.plan.Policy.MaxRun-j.slack():
		j.report(CutShort, "the handler of r%d is stopped by MaxRun after %v", r.id, after)
	}
}

// recovery: an abandoned key is handled as OnAbandoned says.
func (j *judge) recovery(r *run) {
	if !r.tookOver() || j.plan.Policy.Observe {
		return
	}
	switch released := r.released > r.grants[len(r.grants)-1].At && !r.cleared(); {
	case released && r.started == nil:
		j.report(AbandonedErased, "r%d takes the key over, runs nothing, and releases it", r.id)
	case released:
		j.report(TakenReleased, "r%d takes the key over, runs its handler, and releases the key at %v", r.id, r.released)
	}
	switch mode := j.plan.Policy.Abandoned; {
	case mode == Refuse:
		j.report(TakenOver, "r%d takes the key over", r.id)
	case mode == Recover && r.guarded() && !r.cleared():
		j.report(RecoverSkipped, "the handler of r%d runs, and the RecoverFunc does not say that it should", r.id)
	}
}
