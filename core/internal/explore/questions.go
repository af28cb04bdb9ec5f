package explore

import (
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/event"
)

// inquiry is a reconciler's question about a key, as a part of a run.
type inquiry struct {
	reconciler      int
	asked, answered *Fact // the call of the FindFunc
	events          []event.Result
}

// inquired adds a fact of a question.
func (r *run) inquired(f *Fact) {
	switch f.Kind {
	case Inquired:
		r.key, r.inquiry = f.Key, &inquiry{reconciler: f.N}
	case Asked:
		r.inquiry.asked = f
	case Answered:
		r.inquiry.answered = f
	default:
	}
}

// questions judges the reconcilers.
func (j *judge) questions() {
	for _, r := range j.order {
		if r.inquiry != nil && !j.plan.kills(r.pod) {
			j.question(r)
		}
	}
	if len(j.plan.Reconcilers) > 0 {
		j.reconciled()
		for _, r := range j.order {
			j.told(r)
		}
		j.rests()
	}
}

// question judges a question by itself.
func (j *judge) question(r *run) {
	asked, answered := r.inquiry.asked, r.inquiry.answered
	if asked == nil {
		return
	}
	grant := r.lastGrant(asked.At)
	if grant == nil || !grant.has(TookOver) || grant.Attempt != asked.Attempt+1 {
		j.report(AskedOther, "q%d asks about attempt %d of key %d, and has not taken that attempt over", r.id, asked.Attempt, r.key)
		return
	}
	j.askedEarly(r, grant)
	j.runsAgain(r)
	if answered == nil || j.plan.frozen(r.pod) > 0 {
		return
	}
	if took := answered.At - asked.At; took > j.reconcilerOf(r).FindTimeout+j.slack() {
		j.report(FindOutlives, "the FindFunc of q%d takes %v, and its FindTimeout is %v", r.id, took, j.reconcilerOf(r).FindTimeout)
	}
	j.inTime(r, answered.At)
	j.carriedOut(r, answered)
}

func (j *judge) reconcilerOf(r *run) *Reconciler { return &j.plan.Reconcilers[r.inquiry.reconciler] }

// askedEarly: a question comes After the claim of the run whose record it takes over, and later than Backoff
// after the claim of a question. After MaxAttempts there is none.
func (j *judge) askedEarly(r *run, grant *Fact) {
	options := j.reconcilerOf(r)
	if r.inquiry.asked.Attempt >= options.MaxAttempts {
		j.report(AskedEarly, "q%d asks about attempt %d, and MaxAttempts is %d", r.id, r.inquiry.asked.Attempt, options.MaxAttempts)
	}
	if len(j.plan.Jumps) > 0 || j.changedByHand(r.key, 0, grant.At) { // a key that was forgotten has the same attempts again
		return
	}
	var before *run
	var claimed *Fact
	for _, other := range j.order {
		for _, g := range other.grants {
			isTaken := grant.Source < 0 || grant.Source == other.id // a late renewal may bring an older run's record back
			if isTaken && other.key == r.key && g.Attempt == grant.Attempt-1 && g.At < grant.At && (claimed == nil || g.At > claimed.At) {
				before, claimed = other, g
			}
		}
	}
	if before == nil {
		return
	}
	want := options.After
	if before.inquiry != nil {
		want = options.Backoff
		for attempt := uint64(2); attempt < claimed.Attempt && want < options.maxBackoff(); attempt++ {
			want *= 2
		}
		want = min(want, options.maxBackoff())
	}
	if passed := grant.At - firstGrant(before, claimed.Attempt); passed < want {
		j.report(AskedEarly, "q%d asks %v after the claim of r%d, want %v", r.id, passed, before.id, want)
	}
}

// firstGrant is when the store first granted an attempt. A claim can reach the store twice.
func firstGrant(r *run, attempt uint64) time.Duration {
	i := slices.IndexFunc(r.grants, func(g *Fact) bool { return g.Attempt == attempt })
	return r.grants[i].At
}

// carriedOut: an answer is carried out, and nothing else is.
func (j *judge) carriedOut(r *run, answered *Fact) {
	want := Abandon
	switch answered.Text {
	case saysResponse, saysHappened:
		want = Complete
	case saysDidNotHappen:
		want = Release
	}
	for _, op := range []Op{Complete, Release, Abandon} {
		asks := slices.ContainsFunc(r.begun[op], func(at time.Duration) bool { return at >= answered.At })
		if asks != (op == want) {
			j.report(FindingIgnored, "the answer to q%d is %q, and the store is asked for %s: %t", r.id, answered.Text, opNames[op], asks)
		}
	}
}

// runsAgain: a key that was settled as happened never runs again.
func (j *judge) runsAgain(r *run) {
	if r.kept == 0 {
		return
	}
	for _, other := range j.order {
		for _, g := range other.grants {
			if other.key == r.key && g.At > r.kept && g.Life == r.keptLife {
				j.report(ReconciledRuns, "r%d gets a lease at %v, and q%d has settled key %d as happened at %v", other.id, g.At, r.id, r.key, r.kept)
			}
		}
	}
}

// reconciled: the events of a reconciler are about its questions, and say how they ended.
func (j *judge) reconciled() {
	for _, e := range j.history.Facts {
		if e.Kind != Observed || !e.has(Reconciling) {
			continue
		}
		r := j.questionOf(e)
		answer := ""
		if r != nil && r.inquiry.answered != nil {
			answer = r.inquiry.answered.Text
			r.inquiry.events = append(r.inquiry.events, event.Result(e.Text))
		}
		var isRight bool
		switch event.Result(e.Text) {
		case event.Reconciled:
			settled := r != nil && slices.ContainsFunc(r.aged, func(f *Fact) bool { return f.Op != Abandon && f.Err == nil && f.At <= e.At })
			isRight = settled && answer != saysAgain && answer != saysError
		case event.ReconcileGaveUp:
			isRight = (answer == saysAgain || answer == saysError) && e.Attempt >= j.plan.Reconcilers[e.N].MaxAttempts
		case event.RecoverError:
			isRight = answer == saysError
		default:
			isRight = !isDecision(e.Text)
		}
		if !isRight {
			j.report(ReconcilerEvents, "p%d reports %s about attempt %d of key %d at %v, and the answer is %q", e.Pod, e.Text, e.Attempt, e.Key, e.At, answer)
		}
	}
}

// told: each end of a question is one event.
func (j *judge) told(r *run) {
	q := r.inquiry
	if q == nil || q.answered == nil || j.plan.kills(r.pod) || j.plan.frozen(r.pod) > 0 {
		return
	}
	open := q.answered.Text == saysAgain || q.answered.Text == saysError
	stored := !open && slices.ContainsFunc(r.calls, func(c storeCall) bool {
		return (c.op == Complete || c.op == Release) && c.err == nil && c.began >= q.answered.At
	})
	for result, want := range map[event.Result]bool{
		event.Reconciled:      stored,
		event.RecoverError:    q.answered.Text == saysError,
		event.ReconcileGaveUp: open && r.attempt() >= j.reconcilerOf(r).MaxAttempts,
	} {
		if want && !slices.Contains(q.events, result) {
			j.report(ReconcilerEvents, "the answer to q%d is %q, and no event says %s", r.id, q.answered.Text, result)
		}
	}
}

// questionOf is the last question that an event can be about, or nil. A key that was
// forgotten has the same attempts again.
func (j *judge) questionOf(e *Fact) (last *run) {
	for _, r := range j.order {
		if q := r.inquiry; q != nil && q.reconciler == e.N && r.key == e.Key && len(r.grants) > 0 && r.attempt() == e.Attempt && r.grants[0].At <= e.At {
			last = r
		}
	}
	return last
}

// rests: Reconcile ends with its context, and with its engine.
func (j *judge) rests() {
	for n := range j.plan.Reconcilers {
		options := &j.plan.Reconcilers[n]
		if j.plan.kills(options.Pod) || !slices.ContainsFunc(j.plan.Pods, func(p Pod) bool { return p.ID == options.Pod }) {
			continue
		}
		ends, err := time.Duration(0), error(nil)
		end := options.From + options.For
		for _, f := range j.history.Facts {
			switch {
			case f.Kind == Rested && f.N == n:
				ends, err = f.At, f.Err
			case f.Kind == Closed && f.Pod == options.Pod:
				const readTimeout = 30 * time.Second // the engine's, of a search that hangs
				end = min(end, max(f.At, options.From)+readTimeout)
			}
		}
		patience := 12*j.plan.Policy.StoreTimeout + options.Search + j.plan.frozen(options.Pod) + 2*time.Second
		if err != nil || ends == 0 || ends > end+patience {
			j.report(ReconcileLate, "the reconciler of p%d ends at %v with %v, want %v", options.Pod, ends, err, end)
		}
	}
}

// askedBetween reports whether a question held the key between two times.
func (j *judge) askedBetween(key int, from, until time.Duration) bool {
	return slices.ContainsFunc(j.order, func(r *run) bool {
		if r.inquiry == nil || r.key != key || len(r.grants) == 0 || r.granted() > until {
			return false
		}
		return len(r.calls) == 0 || r.calls[len(r.calls)-1].ended+j.plan.Policy.LockTTL >= from
	})
}

// settledByQuestion reports whether a reconciler has stored an outcome of the key since a time.
func (j *judge) settledByQuestion(key int, since time.Duration) bool {
	return slices.ContainsFunc(j.order, func(r *run) bool { return r.inquiry != nil && r.key == key && r.kept > since })
}
