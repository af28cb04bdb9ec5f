package explore

import (
	"errors"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// abandoning: the store is asked to end the lease of an uncertain run, and is asked
// again until it has ended the lease.
func (j *judge) abandoning(r *run) {
	asked := len(r.begun[Abandon]) > 0
	switch {
	case j.plan.Policy.Observe:
	case !asked && r.started == nil && r.tookOver() && r.broke&(1<<InRecoverFunc) != 0:
		j.report(UncertainBlocks, "the RecoverFunc of r%d panicked, and the key is not left abandoned", r.id)
	case !asked && r.guarded() && r.settled == 0 && r.shown != nil && r.class(j.plan) == abandons && !j.unclear():
		j.report(UncertainBlocks, "r%d ends with %d%s, and its key is not left abandoned", r.id, r.stopped.Status, r.stopped.flagWords())
	case asked && r.started != nil && r.begun[Abandon][0] > r.started.At: // or an earlier claim is given back
		j.repeated(r)
	}
}

// repeated: a failed Abandon is repeated for as long as the settlement may take.
func (j *judge) repeated(r *run) {
	var last storeCall
	for _, c := range r.calls {
		if c.op == Abandon {
			last = c
		}
	}
	const pause = 2 * time.Second
	over := last.ended+pause+j.slack() > r.begun[Abandon][0]+settleBudget
	if last.err != nil && !errors.Is(last.err, storage.ErrLeaseLost) && !over {
		j.report(UncertainBlocks, "the key of r%d is not left abandoned: %v, and the engine does not ask the store again", r.id, last.err)
	}
}

// unclear reports whether the plan hides how runs are classified.
func (j *judge) unclear() bool {
	p := &j.plan.Policy
	return p.Observe || p.Keep5xx && j.plan.panics(InClassifier)
}

// after judges a request that was sent after the store had ended the lease of an
// uncertain run: OnAbandoned decides about the request at once.
func (j *judge) after(r, uncertain *run) {
	if uncertain.left == 0 || r.sent.At <= uncertain.left+j.plan.real.slack || j.plan.Policy.Observe {
		return
	}
	shown := r.shown
	if shown == nil || shown.Kind != Shown || r.faulty || j.plan.ends(r.pod) || j.plan.real.tenant != "" && !j.plan.quiet() {
		return
	}
	code := ""
	if shown.has(Problem) {
		code = shown.Text
	}
	if code == problem.StoreUnavailable && j.plan.Unsettled > 0 {
		return
	}
	if code == problem.InProgress {
		if !j.heldAgain(r, uncertain) {
			j.report(UncertainBlocks, "r%d gets %s, and r%d had left the key abandoned at %v", r.id, code, uncertain.id, uncertain.left)
		}
		return
	}
	if len(j.plan.Jumps) > 0 || r.life != uncertain.life || r.sent.At > uncertain.left+j.plan.Policy.TTL || j.releasedAfter(uncertain) ||
		j.changedByHand(r.key, uncertain.left, shown.At) || j.settledByQuestion(r.key, uncertain.abandoned) || j.answeredHere(shown, uncertain) {
		return
	}
	a, b := j.body(r), j.body(uncertain)
	switch {
	case a.Payload != b.Payload:
		if code != problem.KeyReused {
			j.report(OutcomeForgotten, "r%d gets %d %s, and r%d has left the key abandoned with another payload", r.id, shown.Status, code, uncertain.id)
		}
	case a.Nonce == b.Nonce && (a == b && !j.takenLate(r, uncertain) || !j.plan.rolling()) && j.plan.Policy.Abandoned == Refuse && code != problem.OutcomeUnknown:
		j.report(OutcomeForgotten, "r%d gets %d %s, and r%d has left the key abandoned", r.id, shown.Status, code, uncertain.id)
	}
}

// answeredHere reports whether the response is the answer of a FindFunc of its own process, which the store may not have yet.
func (j *judge) answeredHere(shown *Fact, uncertain *run) bool {
	return shown.Text == recovered && slices.ContainsFunc(j.order, func(r *run) bool {
		return r.key == shown.Key && r.pod == shown.Pod && r.inquiry != nil && r.inquiry.answered != nil && r.inquiry.answered.At > uncertain.abandoned
	})
}

// takenLate reports whether a reconciler that has given its claim up holds the key after the
// uncertain run. Then the record has the bytes of an earlier request, which the reconciler had seen.
func (j *judge) takenLate(r, uncertain *run) bool {
	return slices.ContainsFunc(j.order, func(other *run) bool {
		return other.key == r.key && other.inquiry != nil && other.inquiry.asked == nil && other.isGranted(uncertain.abandoned, r.shown.At)
	})
}

// isGranted reports whether the store has granted a claim of r between two times.
func (r *run) isGranted(from, until time.Duration) bool {
	return slices.ContainsFunc(r.grants, func(g *Fact) bool { return g.At >= from && g.At <= until })
}

// heldAgain reports whether another attempt may hold the key, whether a late renewal has
// reached the store, or whether an older attempt may run in the request's process.
func (j *judge) heldAgain(r, uncertain *run) bool {
	for _, other := range j.order {
		if other.key != r.key || other.noKey() {
			continue
		}
		if other.isGranted(uncertain.abandoned, r.shown.At) || other.renewed >= uncertain.abandoned {
			return true
		}
		lingers := other.shown == nil || other.shown.At >= r.sent.At || other.deferred > 0 ||
			slices.ContainsFunc(other.calls, func(c storeCall) bool { return c.ended >= r.sent.At })
		if other != uncertain && other != r && other.pod == r.pod && len(other.grants) > 0 && lingers {
			return true
		}
	}
	return false
}

// releasedAfter reports whether a later attempt has released the key.
func (j *judge) releasedAfter(uncertain *run) bool {
	return slices.ContainsFunc(j.order, func(other *run) bool { return other.key == uncertain.key && other.released > uncertain.abandoned })
}
