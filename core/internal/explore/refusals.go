package explore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// refuses reports whether the store refuses the result of a request for good.
func (s *store) refuses(res storage.Result, caller int) bool {
	r := s.plan.request(caller)
	return r != nil && r.Refused && (res.State != storage.Unreplayable || len(res.Sketch) > 0)
}

// refusal is the error of a result that the store refuses for good. In a transaction it
// is rolled back.
func refusal(op Op) error {
	if op == Commit {
		return fmt.Errorf("%w: %w", storage.ErrRolledBack, storage.ErrNotStorable)
	}
	return storage.ErrNotStorable
}

// drawRefusals lets the store refuse some responses for good.
func drawRefusals(d *dice, p *Plan) {
	for i := range p.Requests {
		p.Requests[i].Refused = d.percent(50)
	}
}

// addRefusal adds a call that the store has refused for good.
func (r *run) addRefusal(f *Fact) {
	if !errors.Is(f.Err, storage.ErrNotStorable) || errors.Is(f.Err, storage.ErrRolledBack) {
		return
	}
	if f.Kind == Applied && r.refused > 0 && r.begun[f.Op][f.N] > r.refused { // a given-up call may be applied late
		r.refusedAgain = f.At
	}
	if f.Kind == Returned && r.refused == 0 {
		r.refused = f.At
	}
}

// refusals: a response that the store has refused for good is not sent again, and the next
// request of the key gets not_replayable.
func (j *judge) refusals(r *run) {
	if r.refusedAgain > 0 && !j.changedByHand(r.key, r.refused, r.refusedAgain) {
		j.report(RefusalRepeated, "the store has refused the response of r%d at %v for good, and gets it again at %v", r.id, r.refused, r.refusedAgain)
	}
	s := r.shown
	if s == nil || s.Kind != Shown || j.plan.Policy.Observe {
		return
	}
	for _, other := range j.order {
		if other == r || other.key != r.key || other.refused == 0 || other.confirmed == 0 || r.sent.At <= other.confirmed {
			continue
		}
		replayed := s.has(Replayed) && s.Source == other.id && s.Text != recovered
		// The judge's own requests come after all faults.
		missed := r.probing && j.lastOf(other) && j.body(r) == j.body(other) && !(s.has(Problem) && s.Text == problem.NotReplayable)
		if replayed || missed {
			j.report(RefusalForgotten, "r%d gets %d %q, and the store has refused the response of r%d at %v for good", r.id, s.Status, s.Text, other.id, other.refused)
		}
	}
}

// lastOf reports whether the outcome of a run is the key's record when the judge asks.
func (j *judge) lastOf(r *run) bool {
	end := j.history.Facts[len(j.history.Facts)-1].At
	later := func(other *run) bool {
		return other.key == r.key && !other.probing && other != r && other.granted() > r.granted()
	}
	return !slices.ContainsFunc(j.order, later) && !j.changedByHand(r.key, 0, end) &&
		j.storesClock(end) < j.storesClock(r.kept)+r.ttl(j.plan) && j.plan.real.tenant == ""
}

// seal replaces a response in a verdict by its ciphertext, which the store cannot open.
func (v verdict) seal() {
	if r := v.record; r != nil && (r.State == storage.Completed || r.State == storage.Failed) {
		r.Header, r.Body = storage.Header{{Op: storage.Sealed}}, []byte("ciphertext")
	}
}

// lastingErrors: a claim that fails for good is not tried again.
func (j *judge) lastingErrors(r *run) {
	var failed error
	for _, c := range r.calls {
		if c.op != Acquire {
			continue
		}
		if failed != nil {
			j.report(ClaimRepeated, "r%d claims its key again at %v, and the store had said: %v", r.id, c.began, failed)
		}
		if errors.Is(c.err, storage.ErrCorruptRecord) || errors.Is(c.err, storage.ErrStoreForbidden) {
			failed = c.err
		}
	}
}

// unsettled: no handler starts in a process with too many responses that wait for the store.
func (j *judge) unsettled(r *run) {
	bound, waiting := j.plan.Unsettled, 0
	if bound == 0 || !r.guarded() {
		return
	}
	for _, other := range j.order {
		waits := other.deferred > 0 && other.deferred < r.sent.At && (other.lateEnd == 0 || other.lateEnd > r.started.At)
		if waits && other.pod == r.pod {
			waiting++
		}
	}
	if waiting >= bound {
		j.report(UnsettledMany, "the handler of r%d starts, and %d responses of p%d wait for the store", r.id, waiting, r.pod)
	}
}
