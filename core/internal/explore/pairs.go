package explore

import (
	"errors"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// pair judges two requests together.
func (j *judge) pair(a, b *run) {
	if !a.guardedLike(b) || j.plan.Policy.Observe {
		return
	}
	j.effects(a, b)
	j.forgotten(a, b)
	j.steps(a, b)
	j.atOnce(a, b)
	j.after(a, b)
	j.after(b, a)
	if x, y := j.final(a), j.final(b); x != nil && y != nil && !x.equals(y) {
		j.responses(x, y)
	}
}

// guardedLike reports whether both requests were sent under one key.
func (r *run) guardedLike(other *run) bool {
	return r.sent != nil && other.sent != nil && r.key == other.key && !r.noKey() && !other.noKey()
}

// effects judges two runs that both had their effect.
func (j *judge) effects(first, second *run) {
	if len(first.nested) > 0 && len(second.nested) > 0 && j.plan.quiet() && j.plan.Policy.TTL > time.Minute {
		j.report(TwoEffects, "r%d and r%d both have an effect in core.Do under key %d", first.id, second.id, first.key)
	}
	if len(first.effects) == 0 || len(second.effects) == 0 {
		return
	}
	if second.effects[0].At < first.effects[0].At {
		first, second = second, first
	}
	if !j.mayRepeat(first, second) {
		j.report(TwoEffects, "r%d and r%d both have an effect under key %d, at %v and %v",
			first.id, second.id, first.key, first.effects[0].At, second.effects[0].At)
	}
}

// mayRepeat reports whether a second effect is allowed: the first run was cut off or
// released its key, one of the runs was unprotected because the store failed, or the
// record had expired.
func (j *judge) mayRepeat(first, second *run) bool {
	switch {
	case first.ranOpen(), second.ranOpen(), first.life != second.life, first.born != second.born:
		return true
	case !first.keeps(j.plan) && !first.effects[0].has(InTx):
		return j.mayFollow(first, second)
	case first.taken > 0:
		return first.faulty || j.plan.real.unsteady || j.tooLong(first) || len(j.plan.Jumps) > 0 || j.plan.ends(first.pod) || first.broke&(1<<InRecoverFunc) != 0
	default:
		return second.cutOffBefore(first)
	}
}

// cutOffBefore reports whether the run belongs to an older attempt, which was cut off. The other
// run may have given a claim back before that attempt.
func (r *run) cutOffBefore(other *run) bool {
	return r.taken > 0 && slices.ContainsFunc(other.grants, func(g *Fact) bool { return r.attempt() < g.Attempt })
}

// mayFollow reports whether a second effect is allowed after a run that has released
// its key, or whose outcome is unknown. A RecoverFunc finds an effect that happened
// before the key was taken over.
func (j *judge) mayFollow(first, second *run) bool {
	switch {
	case j.plan.Policy.Abandoned == Reexecute, first.class(j.plan) == releases, j.unclear():
		return true
	case j.plan.Policy.Abandoned == Refuse:
		return false
	case first.taken > 0 && first.effects[0].At >= first.taken:
		return true // the first run was cut off
	default:
		return second.cutOffBefore(first)
	}
}

// noKey reports whether the request had no key or was skipped, and so has no record.
func (r *run) noKey() bool { return r.plan != nil && (r.plan.NoKey || r.plan.Skip) }

// ranOpen reports whether the handler ran without protection after a fault.
func (r *run) ranOpen() bool { return !r.guarded() && r.faulty }

// attempt is the number of the run's claim, or 0.
func (r *run) attempt() uint64 {
	if len(r.grants) == 0 {
		return 0
	}
	return r.grants[0].Attempt
}

// final returns the response that the client considers final, or nil.
func (j *judge) final(r *run) *Fact {
	if r.shown == nil || r.shown.Kind != Shown || r.shown.has(Problem) {
		return nil
	}
	source := j.runs[r.shown.Source]
	if source == nil || !source.guarded() || !source.keeps(j.plan) {
		return nil
	}
	return r.shown
}

// responses judges two different responses under one key.
func (j *judge) responses(x, y *Fact) {
	a, b := j.runs[x.Source], j.runs[y.Source]
	if j.lifeOf(x) != j.lifeOf(y) {
		return
	}
	rule := TwoResponses
	switch {
	case j.uncertain(x, a), j.uncertain(y, b):
		rule = UncertainResponse
	case j.documented(x, a), j.documented(y, b):
		return
	case j.deferred(x, a), j.deferred(y, b):
		rule = DeferredResponse
	}
	j.report(rule, "key %d: r%d is shown %d %q, and r%d %d %q", x.Key, x.Request, x.Status, x.Text, y.Request, y.Status, y.Text)
}

// lifeOf is the life of the key in which a response was made.
func (j *judge) lifeOf(shown *Fact) (life int) {
	request := j.runs[shown.Request]
	switch {
	case shown.Text != recovered:
		return j.runs[shown.Source].life
	case len(request.begun[Acquire]) > 0:
		return request.life
	}
	for _, r := range j.order { // replayed from a lease of the process, without the store
		if r.key == request.key && r.pod == request.pod && r.granted() > 0 && r.granted() < shown.Since {
			life = max(life, r.life)
		}
	}
	return life
}

// deferred reports whether the response left before the store confirmed it. A replay
// by another pod comes from the store, and is confirmed.
func (j *judge) deferred(shown *Fact, source *run) bool {
	if shown.Request != source.id && j.runs[shown.Request].fromStore {
		return false
	}
	return shown.Pod == source.pod && shown.Text != recovered && (source.confirmed == 0 || source.confirmed > shown.Since)
}

// uncertain reports whether a deferred response also left after its lease.
func (j *judge) uncertain(shown *Fact, source *run) bool {
	return j.deferred(shown, source) && j.wall(shown.Since) > source.heldUntil(shown.At)+j.plan.real.slack
}

// unconfirmed: a response that leaves after its lease is confirmed by the store.
func (j *judge) unconfirmed(r *run) {
	if shown := j.final(r); shown != nil && j.uncertain(shown, j.runs[shown.Source]) {
		j.report(UnconfirmedShown, "r%d is shown %d %q, and the store has not confirmed it", r.id, shown.Status, shown.Text)
	}
}

// documented reports whether the documentation allows the loss of the response. It
// left unconfirmed within its lease, and the process could not reach the store until
// the lease ended. OnAbandoned=Refuse allows no second run but a reconciler's response, and a transaction's
// response never leaves unconfirmed.
func (j *judge) documented(shown *Fact, source *run) bool {
	p := &j.plan.Policy
	if !j.deferred(shown, source) || source.taken == 0 || p.Abandoned == Refuse && len(j.plan.Reconcilers) == 0 || p.Transactional {
		return false
	}
	return len(j.plan.Jumps) > 0 || j.plan.real.unsteady || j.plan.ends(source.pod) || j.plan.frozen(source.pod) > 0 || j.cutOff(shown.Since, source)
}

// cutOff reports whether the process tried in vain to reach the store during its
// lease.
func (j *judge) cutOff(since time.Duration, source *run) bool {
	until, renewed := source.heldUntil(source.taken), source.held[len(source.held)-1].known
	failed, tried := false, false
	for _, c := range source.calls {
		switch c.op {
		case Complete:
			// A response that the store refuses for good is left out of the next call, which may fail.
			if c.reached(since, until-j.plan.real.slack) && !errors.Is(c.err, storage.ErrNotStorable) {
				return false
			}
			failed = failed || c.faulty
		case Extend:
			tried = tried || c.faulty && c.began > renewed
		default:
		}
	}
	// The engine settles before it renews, so a short lease may end first. After
	// MaxRun the engine does not renew.
	y := &j.plan.Policy
	return failed && (tried || j.tooLong(source) || y.LockTTL < 3*y.StoreTimeout+1500*time.Millisecond)
}

// stored: the store holds the response that the clients got.
func (j *judge) stored() {
	for _, held := range j.history.Facts {
		if held.Kind != Holds || held.Text != "completed" && held.Text != "failed" {
			continue
		}
		for _, r := range j.order {
			shown := j.final(r)
			if shown == nil || r.key != held.Key || shown.Source != held.Source || shown.has(Streamed) {
				continue
			}
			// A late attempt stores its response under a key that the store or an operator has forgotten.
			forgotten := shown.Text == recovered && (j.plan.skips() || j.changedByHand(r.key, shown.At, held.At))
			if shown.Status != held.Status && !forgotten {
				j.report(NotStored, "r%d is shown %d, and the store holds %d of the same run", r.id, shown.Status, held.Status)
			}
		}
	}
}
