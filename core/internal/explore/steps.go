package explore

import (
	"cmp"
	"slices"
	"time"
)

// stepsOf judges the steps of one run.
func (j *judge) stepsOf(r *run) {
	if !r.guarded() {
		return
	}
	if f := r.stepLate; f != nil {
		j.report(StepTooLate, "a step of r%d begins at %v, and its context has ended", r.id, f.At)
	}
	if g := r.lastGrant(r.started.At); g != nil && g.has(NewerSteps) {
		j.report(StepsUnread, "the handler of r%d runs, and steps of its key cannot be read", r.id)
	}
	j.stepTwice(r, r.entered)
	j.stepTwice(r, r.recorded)
	for _, f := range slices.Concat(r.entered, r.recorded) {
		if r.settled > 0 && f.At > r.settled {
			j.report(StepSettled, "step %d of r%d is called or recorded at %v, and the response is settled at %v", f.N, r.id, f.At, r.settled)
		}
	}
	for _, f := range r.recorded {
		if f.Source == r.id && !r.wroteStep(f) {
			j.report(StepUnrecorded, "step %d of r%d returns its result at %v, and the store has not confirmed the result", f.N, r.id, f.At)
		}
	}
	j.stepTold(r)
}

func (j *judge) stepTwice(r *run, facts []*Fact) {
	for i, f := range facts {
		if slices.ContainsFunc(facts[:i], func(g *Fact) bool { return g.N == f.N }) {
			j.report(StepTwice, "r%d calls step %d once more at %v", r.id, f.N, f.At)
		}
	}
}

// wroteStep reports whether the store has confirmed a renewal between the end of a step's
// function and the return of its result.
func (r *run) wroteStep(recorded *Fact) bool {
	return slices.ContainsFunc(r.stepped, func(done *Fact) bool {
		written := func(l lease) bool { return l.known > done.At && l.known <= recorded.At }
		return done.N == recorded.N && done.At <= recorded.At && slices.ContainsFunc(r.held, written)
	})
}

// lastGrant is the last lease of the store until a time, or nil.
func (r *run) lastGrant(until time.Duration) (last *Fact) {
	for _, g := range r.grants {
		if g.At <= until {
			last = g
		}
	}
	return last
}

// openSteps are steps that were begun and have no end in the store.
type openSteps struct {
	certain []int
	// possible has the certain ones, too. It counts only if known is set.
	possible []int
	known    bool
}

// stepTold: the RecoverFunc is told of a step that an earlier attempt has left open, if
// there is one.
func (j *judge) stepTold(r *run) {
	if r.looked == nil || len(j.plan.Jumps) > 0 || j.changedByHand(r.key, 0, r.looked.At) {
		return
	}
	grant := r.lastGrant(r.looked.At)
	if grant == nil || j.releasedUnused(r.key) {
		return
	}
	open := j.openBefore(r, grant)
	switch told := r.looked.N; {
	case told < 0 && len(open.certain) > 0:
		j.report(StepNotTold, "the RecoverFunc of r%d is told of no step, and the outcomes of %v are unknown", r.id, open.certain)
	case told >= 0 && open.known && !slices.Contains(open.possible, told):
		j.report(StepNotTold, "the RecoverFunc of r%d is told of step %d, and the outcomes of %v are unknown", r.id, told, open.possible)
	}
}

// openBefore is the state of the steps at a claim.
func (j *judge) openBefore(r *run, grant *Fact) openSteps {
	var earlier []*run
	for _, other := range j.order {
		if other != r && other.key == r.key && !other.noKey() && (other.guarded() || other.inquiry != nil) && other.inLife(r.born) && other.attempt() < grant.Attempt {
			earlier = append(earlier, other)
		}
	}
	slices.SortFunc(earlier, func(a, b *run) int { return cmp.Compare(a.begins(), b.begins()) })
	open := openSteps{known: true}
	for _, other := range earlier {
		other.leaveOpen(&open, grant.At)
	}
	open.known = open.known && !slices.ContainsFunc(earlier, (*run).renewedLate)
	return open
}

// renewedLate reports whether a renewal has claimed the key again after its release.
func (r *run) renewedLate() bool { return r.releasedAt > 0 && r.renewed > r.releasedAt }

// inLife reports whether the store has got steps of the run in a life of the key.
func (r *run) inLife(life int) bool { return r.born == life || r.revived == life }

// leaveOpen adds the steps of an attempt. All of its lines are in the store if the store has
// ended its lease.
func (r *run) leaveOpen(open *openSteps, until time.Duration) {
	ended := func(at time.Duration) bool { return at > r.begins() && at < until }
	if ended(r.releasedAt) {
		*open = openSteps{known: true}
		return
	}
	if r.inquiry != nil {
		if a := r.inquiry.answered; a != nil && a.Text == saysDidNotHappen { // its Release may come late
			*open = openSteps{}
		}
		return
	}
	if r.cleared() { // the RecoverFunc has decided about the steps of earlier attempts
		open.certain = nil
	}
	written := ended(r.abandoned)
	open.known = open.known && written
	for _, f := range r.entered {
		if f.At > until {
			continue
		}
		// The end of a step ends it for earlier attempts, too. The lines are closed at the handler's end, or
		// after a renewal that is under way then.
		result, failed := firstOf(r.recorded, f.N), firstOf(r.stepFailed, f.N)
		fails := failed != nil && !failed.has(Uncertain)
		if result != nil || fails && (r.stopped == nil || failed.At <= r.stopped.At) {
			open.certain, open.possible = without(open.certain, f.N), without(open.possible, f.N)
			continue
		}
		if fails {
			open.certain = without(open.certain, f.N)
		}
		open.possible = append(open.possible, f.N)
		if written && !fails { // a late failure may reach the store by a repeated Abandon
			open.certain = append(open.certain, f.N)
		}
	}
}

// begins is when the handler starts, or a question's claim.
func (r *run) begins() time.Duration {
	if r.started == nil {
		return r.granted()
	}
	return r.started.At
}

func without(list []int, n int) []int {
	return slices.DeleteFunc(list, func(other int) bool { return other == n })
}

func firstOf(facts []*Fact, n int) *Fact {
	if i := slices.IndexFunc(facts, func(f *Fact) bool { return f.N == n }); i >= 0 {
		return facts[i]
	}
	return nil
}

// unreadable reports whether a claim of the key has met steps that cannot be read. The key
// then waits for a process of the newer version.
func (j *judge) unreadable(key int) bool {
	return slices.ContainsFunc(j.order, func(r *run) bool {
		return r.key == key && slices.ContainsFunc(r.grants, func(g *Fact) bool { return g.has(NewerSteps) })
	})
}

// releasedUnused reports whether a claim without a handler was released: the steps of the
// attempts before it may then be gone.
func (j *judge) releasedUnused(key int) bool {
	return slices.ContainsFunc(j.order, func(r *run) bool {
		return r.key == key && r.released > 0 && r.inquiry == nil && (!r.guarded() || r.released < r.started.At)
	})
}

// addFailure adds the error of a step. The settlement waits for a renewal first, and a step
// that has failed by then has a known outcome.
func (r *run) addFailure(f *Fact) {
	r.stepFailed = append(r.stepFailed, f)
	if s := r.stopped; s != nil && s.has(DuringStep) && r.renews() && !f.has(Uncertain) {
		known := *s
		known.Flags &^= DuringStep
		r.stopped = &known
	}
}

// unknownStep reports whether the outcome of a step is unknown at a time after the handler's end.
func (r *run) unknownStep(at time.Duration) bool {
	known := slices.ContainsFunc(r.stepFailed, func(f *Fact) bool { return f.At > r.stopped.At && f.At <= at && !f.has(Uncertain) })
	return r.unknown || r.stopped.has(DuringStep) && !known
}

// renews reports whether a renewal of the lease or of the run's place is under way.
func (r *run) renews() bool {
	returned := 0
	for _, c := range r.calls {
		if c.op == Extend || c.op == KeepPlace {
			returned++
		}
	}
	return len(r.begun[Extend])+len(r.begun[KeepPlace]) > returned
}

// steps: a step whose result an attempt has got is not repeated by a later one, and all
// attempts get the same result, as long as the store knows the key.
func (j *judge) steps(a, b *run) {
	if !a.guarded() || !b.guarded() || !a.inLife(b.born) && !b.inLife(a.born) {
		return
	}
	j.repeats(a, b)
	j.repeats(b, a)
	for _, x := range a.recorded {
		for _, y := range b.recorded {
			if x.N == y.N && x.Source != y.Source && (a.hasIn(x, b.born) || b.hasIn(y, a.born)) && !j.late(a, b) {
				j.report(StepDiffers, "step %d of key %d is of r%d for r%d, and of r%d for r%d", x.N, a.key, x.Source, a.id, y.Source, b.id)
			}
		}
	}
}

// hasIn reports whether the store has got a result in a life of the key. A renewal that holds
// the key again has the results from before its call.
func (r *run) hasIn(got *Fact, life int) bool {
	return r.born == life || r.revived == life && got.At <= r.revivedBy
}

// repeats: a step that begins before the other attempt has its result may end after it.
func (j *judge) repeats(first, second *run) {
	for _, got := range first.recorded {
		for _, again := range second.stepped {
			began := firstOf(second.entered, again.N)
			if got.N == again.N && began.At > got.At && first.hasIn(got, second.born) && !j.late(first, second) {
				j.report(StepRepeated, "r%d repeats step %d at %v, and r%d got its result at %v", second.id, got.N, again.At, first.id, got.At)
			}
		}
	}
}

// late reports whether the attempt with the lower number may have believed in its lease
// for longer than the store, whose clock jumped.
func (j *judge) late(a, b *run) bool { return len(j.plan.Jumps) > 0 && a.attempt() != b.attempt() }
