package explore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// calls judges the calls at the store for one request.
func (j *judge) calls(r *run) {
	if j.plan.ends(r.pod) || j.plan.frozen(r.pod) > 0 {
		return
	}
	for _, c := range r.calls {
		j.call(r, c)
	}
	if r.ownClaim && j.plan.Policy.Wait == 0 {
		j.report(OwnClaim, "the store shows r%d its own claim", r.id)
	}
	j.claims(r)
	j.renewal(r)
	j.background(r)
	j.abandoning(r)
}

// call: each call has a context of its own and gets the policy's StoreTimeout. Two
// calls are exceptions: an Extend may last as long as the lease, and a Begin ends with
// the handler's context.
func (j *judge) call(r *run, c storeCall) {
	// The tries of a claim share a deadline, as those of an Admit do.
	ended := errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded) && c.op != Acquire && c.op != Admit
	if ended && !c.faulty && c.op != Extend && c.op != Begin {
		j.report(CallCutOff, "%s of r%d ends after %v with its context, and no fault delayed the call", opNames[c.op], r.id, c.ended-c.began)
	}
	// A request that waits makes several claims, and a call's fact does not name its claim.
	if c.op != Extend || j.plan.Policy.Wait > 0 {
		return
	}
	for _, end := range []Op{Release, Abandon} {
		if r.asked[end] > 0 && c.ended > r.begun[end][0] {
			j.report(LateRenewal, "an Extend of r%d that began at %v ends at %v, and the %s began at %v", r.id, c.began, c.ended, opNames[end], r.begun[end][0])
		}
	}
}

// claims: a claim without a handler is given back, and no other claim is. A claim that
// another request took over, or that an operator removed, while its own request went on may be
// forgotten: its reply came after the end of its lease.
func (j *judge) claims(r *run) {
	left := r.taken == 0 || r.shown != nil && r.taken > r.shown.At || r.tookOver() && j.storesClock(r.taken) < j.storesClock(r.granted())+j.plan.Policy.LockTTL
	removed := r.shown != nil && j.changedByHand(r.key, r.granted(), r.shown.At)
	kept := len(r.grants) > 0 && left && !removed && r.asked[Release]+r.asked[Abandon]+r.asked[Complete] == 0 && !j.plan.skips()
	if kept && r.started == nil {
		j.report(ClaimKept, "r%d has claimed its key, and neither runs nor gives the key back", r.id)
	}
	if r.started == nil && !j.plan.skips() && j.plan.real.tenant == "" && j.cameLate(r) {
		j.report(ClaimKept, "a claim of r%d reaches the store after its release, and is not released again", r.id)
	}
	if at := r.released; r.guarded() && at > r.started.At && (r.settled == 0 || at < r.settled) && !j.overlaps(r) {
		j.report(ReleasedRunning, "the key of r%d is released at %v, while its handler runs", r.id, at)
	}
}

// cameLate reports whether the claim reached the store after the last call that gave it
// back, and the engine had the time for its second: a StoreTimeout after the first call
// that succeeded, and within the LockTTL.
func (j *judge) cameLate(r *run) bool {
	p := &j.plan.Policy
	var began, first, last time.Duration
	for _, c := range r.calls {
		if c.op != Release && c.op != Abandon {
			continue
		}
		if last = c.ended; began == 0 {
			began = c.began
		}
		if c.err == nil && first == 0 {
			first = c.ended
		}
	}
	const margin = 10 * time.Millisecond
	second := first + p.StoreTimeout - margin
	return p.Wait == 0 && first > 0 && r.granted() > last && r.granted() < second && second+2*margin < began+p.LockTTL
}

// overlaps reports whether a Release of an earlier claim began before the handler.
// A real server may have applied the Release before the claim and replied later.
func (j *judge) overlaps(r *run) bool {
	return j.plan.real.tenant != "" && r.begun[Release][0] < r.started.At
}

// renewal: the engine tries to renew the lease until the lease ends.
func (j *judge) renewal(r *run) {
	if r.lost == nil || !r.guarded() || r.lost.At < r.started.At || !r.goesOn(r.lost.At) || r.learnedLoss() > 0 || len(j.plan.Jumps) > 0 || len(r.held) == 0 {
		return
	}
	until := r.heldUntil(r.lost.At)
	for _, c := range r.calls {
		if c.op == Extend && c.ended+j.plan.Policy.LockTTL/10+j.slack() >= until || c.op == Acquire && c.ended+j.slack() >= until {
			return
		}
	}
	j.report(GaveUp, "the lease of r%d ends at %v, and the engine has not tried to renew it for too long", r.id, until)
}

// background: the lease is renewed while a response waits for the store.
func (j *judge) background(r *run) {
	var completes []storeCall
	renewed := false
	for _, c := range r.calls {
		if over := r.deferred + settleBudget + j.slack(); r.deferred > 0 && c.began > over && c.op != Extend {
			j.report(SettlesLate, "%s of r%d begins at %v, and its settlement was deferred at %v", opNames[c.op], r.id, c.began, r.deferred)
		}
		switch {
		case c.op == Complete && c.err != nil && !errors.Is(c.err, storage.ErrLeaseLost):
			completes = append(completes, c)
		case c.op == Extend && len(completes) > 0:
			renewed = true
		}
	}
	if len(completes) < 4 || renewed || len(j.plan.Jumps) > 0 {
		return
	}
	at := completes[len(completes)-2].ended
	if at+j.plan.Policy.LockTTL/2 > r.heldUntil(at) {
		j.report(GaveUp, "the response of r%d waits for the store until %v, and its lease is not renewed", r.id, at)
	}
}

// settlement: a run is settled by the handler's marks and status, before its response
// leaves.
func (j *judge) settlement(r *run) {
	p := &j.plan.Policy
	if p.Transactional {
		j.transaction(r)
	}
	if r.stopped == nil || !r.guarded() || j.unclear() {
		return
	}
	if r.keeps(j.plan) {
		j.recordFirst(r)
	}
	if r.settled >= r.stopped.At { // a streamed response may leave before the handler's last mark
		j.classified(r)
	}
}

// classified: the outcome decides whether a response is stored, and whether its key is
// released or left abandoned.
func (j *judge) classified(r *run) {
	c, p := r.class(j.plan), &j.plan.Policy
	wrong := func(rule Rule, then string) {
		j.report(rule, "r%d ends with %d%s, and so %s, but %s", r.id, r.stopped.Status, r.stopped.flagWords(), classNames[c], then)
	}
	refused := c == keeps && p.Transactional // the database may refuse the commit
	if c != keeps && r.asked[Complete]+r.asked[Commit] > 0 {
		wrong(WronglyKept, "its response is stored")
	}
	if c != releases && (!refused || r.unknownStep(r.asked[Release])) && p.Wait == 0 && r.asked[Release] > 0 { // a request that waits may release an earlier claim
		wrong(WronglyReleased, "its key is released")
	}
	if c != abandons && p.Wait == 0 && r.asked[Abandon] > 0 && !(refused && (r.unknownStep(r.stopped.At) || r.tookOver() && !r.cleared())) {
		wrong(WronglyAbandoned, "its key is left abandoned")
	}
}

// recordFirst: a response leaves after the engine asked the store to keep it.
func (j *judge) recordFirst(r *run) {
	s := r.shown
	if r.stopped.has(Streamed) && !j.plan.keepsStream(r.stopped) {
		return
	}
	if s != nil && s.Status != 0 && !s.has(Problem) && (r.settled == 0 || s.Since < r.settled) {
		j.report(RespondsFirst, "the response of r%d leaves at %v, and the engine asks the store to keep it at %v", r.id, s.Since, r.settled)
	}
}

// transaction: each transaction ends.
func (j *judge) transaction(r *run) {
	if len(r.begun[Commit])+len(r.begun[Rollback]) > 0 {
		return
	}
	for _, c := range r.calls {
		if c.op == Begin && c.err == nil {
			j.report(TransactionOpen, "the transaction of r%d ends neither in Commit nor in Rollback", r.id)
		}
	}
}

// atOnce judges two runs of one process. The second handler may begin after the first
// has ended or was settled, or after the process learned of the first's lost lease.
func (j *judge) atOnce(a, b *run) {
	if a.pod != b.pod || !a.guarded() || !b.guarded() {
		return
	}
	if b.started.At < a.started.At {
		a, b = b, a
	}
	over := a.stopped != nil && a.stopped.At <= b.started.At
	settled := a.settled > 0 && a.settled <= b.started.At
	told := a.learnedLoss() > 0 && a.learnedLoss() <= b.started.At
	if !over && !settled && !told {
		j.report(TwoAtOnce, "the handlers of r%d and r%d run beside each other on p%d", a.id, b.id, a.pod)
	}
}

// expired: a response is replayed only during its TTL.
func (j *judge) expired(r, source *run) {
	if source.confirmed > 0 && r.shown.Text != recovered && r.sent.At > source.confirmed+source.ttl(j.plan) {
		j.report(StaleReplay, "r%d gets at %v the response of r%d, which was stored at %v", r.id, r.shown.At, source.id, source.confirmed)
	}
}

// aged adds the age of a lease.
func (v verdict) aged(l storage.Lease) verdict {
	v.age = l.Age
	return v
}

// ages: each call says how long ago its claim was made.
func (j *judge) ages(r *run) {
	if j.plan.frozen(r.pod) > 0 {
		return
	}
	for _, f := range r.aged {
		began := r.begun[f.Op][f.N]
		if !slices.ContainsFunc(r.begun[Acquire], func(claimed time.Duration) bool {
			return (began - claimed - f.Since).Abs() < time.Millisecond
		}) {
			j.report(AgeWrong, "%s of r%d at %v says that its claim is %v old", opNames[f.Op], r.id, began, f.Since)
		}
	}
}
