package explore

import (
	"slices"
	"time"
)

// storesClock is a time by the store's clock.
func (j *judge) storesClock(at time.Duration) time.Duration {
	return at + j.plan.jumped(Skip, at) + j.plan.jumped(Suspension, at)
}

// ttl is how long the run's response is kept.
func (r *run) ttl(p *Plan) time.Duration {
	if r.kept > 0 && r.keepFor > 0 && (r.shown == nil || r.shown.Text != recovered) {
		return r.keepFor
	}
	return p.Policy.TTL
}

// forgotten: a key is new again only when its response has expired and the time to
// remember it is over. A release makes it new at once. A request can be granted several
// leases, and another request's lease can be between them.
func (j *judge) forgotten(first, second *run) {
	for _, before := range first.grants {
		for _, after := range second.grants {
			if before.At < after.At {
				j.forgottenBetween(first, second, before, after)
			} else {
				j.forgottenBetween(second, first, after, before)
			}
		}
	}
}

func (j *judge) forgottenBetween(first, second *run, before, after *Fact) {
	if before.Life == after.Life || j.changedBetween(first.key, before.At, after.At) {
		return
	}
	last, kept := before.At, j.plan.Policy.TTL
	if first.kept > before.At && first.kept < after.At {
		last, kept = first.kept, first.ttl(j.plan)
	}
	passed := j.storesClock(after.At) - j.storesClock(last)
	if kept += j.plan.Policy.Remember; passed < kept {
		j.report(ForgottenEarly, "r%d gets a lease %v after r%d, and its key is remembered for %v", second.id, passed, first.id, kept)
	}
}

// changedBetween reports whether another run claimed the key, or a run released it. A key
// that only keeps an attempt number is not remembered.
func (j *judge) changedBetween(key int, from, until time.Duration) bool {
	return j.changedByHand(key, from, until) || slices.ContainsFunc(j.order, func(r *run) bool {
		released := r.releasedAt > 0 && r.releasedAt >= from && r.releasedAt <= until
		return r.key == key && (released || slices.ContainsFunc(r.grants, func(g *Fact) bool { return g.At > from && g.At < until }))
	})
}

// keyExpired: a client is told that a response has expired only after its TTL, and only
// for the payload of that response.
func (j *judge) keyExpired(r *run) {
	for _, other := range j.order {
		over := other.kept > 0 && j.storesClock(r.shown.At) >= j.storesClock(other.kept)+other.ttl(j.plan)
		if over && other.key == r.key && j.body(other).Payload == j.body(r).Payload {
			return
		}
	}
	if j.changedByHand(r.key, 0, r.shown.At) || j.settledByQuestion(r.key, 0) {
		return // a key that an operator or a reconciler has settled expires too
	}
	j.report(ExpiredWrongly, "r%d is told that its key has expired, and no response to its payload has passed its TTL", r.id)
}

// outcomeUnknown: a client is told that an outcome is unknown only if an attempt of the
// key had neither stored its response nor released the key when the request was sent.
func (j *judge) outcomeUnknown(r *run) {
	for _, other := range j.order {
		last := max(other.renewed, other.granted()) // a late call may claim the key again
		stored := other.kept > last && other.kept <= r.sent.At
		released := other.releasedAt > last && other.releasedAt <= r.sent.At
		held := len(other.grants) > 0 && !stored && !released || j.plan.real.slack > 0 && other.mayHaveClaimed()
		if other.key == r.key && held {
			return
		}
	}
	j.report(UnknownWrongly, "r%d is told that an outcome is unknown, and each attempt of its key has stored its response or released the key", r.id)
}

// mayHaveClaimed reports whether an Acquire got no reply from the store: its pod was
// killed or cut off, or the store was late. A real store may have granted the claim, and
// the history does not say so.
func (r *run) mayHaveClaimed() bool {
	replies := 0
	for _, c := range r.calls {
		if c.op == Acquire && c.err == nil {
			replies++
		}
	}
	return len(r.begun[Acquire]) > replies
}

// granted is when the store last gave the request a lease, or zero.
func (r *run) granted() time.Duration {
	if len(r.grants) == 0 {
		return 0
	}
	return r.grants[len(r.grants)-1].At
}
