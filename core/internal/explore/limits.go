package explore

import (
	"context"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Limiter = (*link)(nil)

// isLimited reports whether the plan limits the keys of its scope.
func (p *Plan) isLimited() bool { return p.Limit != core.ScopeLimit{} }

// scope has the counts of one scope at the store.
type scope struct {
	places  map[storage.Token]time.Time // their ends
	newKeys int
	window  time.Time // its end
}

// The texts of Applied facts of an Admit.
const (
	isAdmitted    = "admitted"
	isTurnedAway  = "too many in flight"
	isOverTheRate = "too many new keys"
)

// admit is storage.Limiter's Admit.
func (s *store) admit(p storage.Place, ttl time.Duration, limit storage.ScopeLimit) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	of := s.scopes[p.Scope]
	if of == nil {
		of = &scope{places: map[storage.Token]time.Time{}}
		s.scopes[p.Scope] = of
	}
	for token, end := range of.places {
		if !now.Before(end) {
			delete(of.places, token)
		}
	}
	if !now.Before(of.window) {
		of.newKeys = 0
	}
	_, again := of.places[p.Token]
	v := verdict{source: -1, word: isAdmitted}
	switch {
	case s.plan.sabotage == admitsAll:
		return v
	case again:
	case limit.InFlight > 0 && len(of.places) >= limit.InFlight:
		v.admission, v.word = storage.Admission{Reached: storage.ReachedInFlight}, isTurnedAway
		return v
	case limit.NewKeys > 0 && of.newKeys >= limit.NewKeys:
		v.admission, v.word = storage.Admission{Reached: storage.ReachedNewKeys, Wait: of.window.Sub(now)}, isOverTheRate
		return v
	default:
		if of.newKeys == 0 {
			of.window = now.Add(limit.Window)
		}
		of.newKeys++
	}
	if limit.InFlight > 0 {
		of.places[p.Token] = now.Add(ttl)
	}
	return v
}

// keep is storage.Limiter's Keep.
func (s *store) keep(p storage.Place, ttl time.Duration) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := verdict{source: -1, word: "no place"}
	of := s.scopes[p.Scope]
	if of == nil {
		return v
	}
	if end, has := of.places[p.Token]; has && s.now().Before(end) {
		v.word = "kept"
		if of.places[p.Token] = s.now().Add(ttl); ttl == 0 {
			v.word = "given back"
			delete(of.places, p.Token)
		}
	}
	return v
}

func (l *link) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (storage.Admission, error) {
	who := l.world.callerOf(p.Token)
	v := l.call(ctx, Admit, who, func() verdict { return l.world.store.admit(p, ttl, limit) })
	return v.admission, v.err
}

func (l *link) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	op := KeepPlace
	if ttl == 0 {
		op = LeavePlace
	}
	return l.call(ctx, op, l.world.callerOf(p.Token), func() verdict { return l.world.store.keep(p, ttl) }).err
}

// drawLimit limits the keys of the plan's scope, and lets it have more of them.
func drawLimit(d *dice, p *Plan) {
	p.Limit = core.ScopeLimit{InFlight: pick(d, 0, 1, 1, 1, 2), PerMinute: pick(d, 0, 0, 1, 2, 4)}
	if !p.isLimited() {
		p.Limit.InFlight = 1
	}
	for i := range p.Requests {
		if d.percent(60) {
			p.Requests[i].Key = d.below(4)
		}
	}
	for range pick(d, 0, 0, 1, 2) {
		p.drawFault(d, d.below(len(p.Requests)), pick(d, Admit, Admit, KeepPlace, LeavePlace), pick(d, 0, 0, 1), 1, 1, 5)
	}
}

// isPlace reports whether the store has given or renewed a place.
func (f *Fact) isPlace() bool {
	return f.Kind == Applied && (f.Op == Admit && f.Text == isAdmitted || f.Op == KeepPlace && f.Text == "kept")
}

// addPlace adds a call about the place of a key in the limit of its scope.
func (r *run) addPlace(f *Fact) {
	switch {
	case f.isPlace():
		r.placed = append(r.placed, f)
	case f.Op == Admit && f.Kind == Returned:
		r.admission = f
	}
}

// isRefused reports whether the store's last reply refuses the run's key, also one that it has
// admitted: the place may have ended before a second call.
func (r *run) isRefused() bool {
	return r.admission != nil && r.admission.Err == nil && r.admission.Text != isAdmitted
}

// startsFirst reports whether the run's handler starts as the first attempt of its key.
func (r *run) startsFirst() bool {
	if !r.guarded() {
		return false
	}
	grant := r.lastGrant(r.started.At)
	return grant != nil && grant.Attempt == 1 && !grant.has(TookOver)
}

// limited judges one request by the limit of its scope.
func (j *judge) limited(r *run) {
	if !j.plan.isLimited() {
		return
	}
	j.admitted(r)
	j.turnedAway(r)
	if j.plan.Limit.InFlight > 0 {
		j.places(r)
	}
}

// admitted: the first attempt of a key starts only after the store has admitted it, and no other
// request asks.
func (j *judge) admitted(r *run) {
	a := r.admission
	switch {
	case r.startsFirst() && (a == nil || a.Err != nil || a.Text != isAdmitted || a.At > r.started.At):
		j.report(LimitIgnored, "the handler of r%d starts as the first attempt, and the store has not admitted its key", r.id)
	case r.started != nil && r.isRefused():
		j.report(LimitIgnored, "the handler of r%d starts, and the store had said: %s", r.id, a.Text)
	}
	for _, at := range r.begun[Admit] {
		if grant := r.lastGrant(at); grant == nil || grant.Attempt != 1 {
			j.report(LimitAsked, "r%d asks at %v for a place, and it has no first attempt to run", r.id, at)
		}
	}
	if a == nil && r.asked[Admit] == 0 && r.asked[KeepPlace]+r.asked[LeavePlace] > 0 {
		j.report(LimitAsked, "r%d renews a place or gives it back, and has asked for none", r.id)
	}
}

// turnedAway: a client gets scope_limited if and only if the store says so. The key is released
// before that, and no outcome is kept.
func (j *judge) turnedAway(r *run) {
	refused := r.isRefused()
	if r.shown == nil || r.shown.Kind != Shown {
		return
	}
	if told := r.shown.has(Problem) && r.shown.Text == problem.ScopeLimited; told != refused {
		j.report(LimitedWrongly, "r%d gets %d %s, and the store has refused its key: %t", r.id, r.shown.Status, r.shown.Text, refused)
	}
	if !refused {
		return
	}
	if at := r.firstAfter(Release, r.admission.At); at == 0 || at > r.shown.Since {
		j.report(LimitedWrongly, "r%d gets scope_limited at %v, and its key is not released before", r.id, r.shown.At)
	}
	if r.asked[Complete]+r.asked[Commit] > 0 {
		j.report(LimitedWrongly, "r%d gets scope_limited, and the store is asked to keep a response", r.id)
	}
}

// firstAfter is when the run's first call of a kind after a time began, or zero.
func (r *run) firstAfter(op Op, at time.Duration) time.Duration {
	for _, began := range r.begun[op] {
		if began >= at {
			return began
		}
	}
	return 0
}

// places: a key has its place until it is settled, and not longer.
func (j *judge) places(r *run) {
	if len(r.placed) == 0 || j.plan.ends(r.pod) || j.plan.frozen(r.pod) > 0 || len(j.plan.Jumps) > 0 {
		return
	}
	last := r.placed[len(r.placed)-1]
	left := r.firstAfter(LeavePlace, last.At)
	settled := r.shown != nil && r.settledBy(r.shown.At)
	switch {
	case left == 0 && !r.isRefused() && (settled || r.started == nil && r.deferred == 0 && r.taken == 0) && !last.has(Faulty):
		j.report(PlaceWrong, "r%d is admitted at %v, and never gives its place back", r.id, last.At)
	case r.guarded() && r.settled > 0 && left > 0 && left < r.settled && left > r.started.At:
		j.report(PlaceWrong, "r%d gives its place back at %v, and is settled at %v", r.id, left, r.settled)
	case settled && r.stopped != nil && !r.stopped.has(Streamed) && r.shown != nil && r.shown.Kind == Shown && left > r.shown.Since:
		j.report(PlaceWrong, "r%d gets its response at %v, before its place is given back at %v", r.id, r.shown.Since, left)
	}
	if r.faulty || r.lost != nil || !r.guarded() || j.tooLong(r) || j.changedByHand(r.key, 0, r.endedAt) {
		return
	}
	for i, f := range r.placed {
		until := r.settled
		if i+1 < len(r.placed) {
			until = r.placed[i+1].At
		}
		if until-f.At > j.plan.Policy.LockTTL {
			j.report(PlaceWrong, "r%d runs until %v, and has renewed its place at %v for the last time", r.id, until, f.At)
		}
	}
}

// settledBy reports whether the process knows at a time that its run is settled.
func (r *run) settledBy(at time.Duration) bool {
	return slices.ContainsFunc(r.calls, func(c storeCall) bool {
		// A Release that finds no lease may give an earlier claim back.
		settles := c.op == Complete || c.op == Commit || c.op == Release && c.word == "released" || c.op == Abandon
		return settles && c.err == nil && c.ended <= at && r.stopped != nil && c.began >= r.stopped.At
	})
}

// limits judges the counts of the scope. Runs that met a fault count for nothing: their places
// may have ended.
func (j *judge) limits() {
	if !j.plan.isLimited() || len(j.plan.Jumps) > 0 {
		return
	}
	var first time.Duration
	started := 0
	for _, r := range j.order {
		if r.counted > 0 && (first == 0 || r.counted < first) {
			first = r.counted
		}
	}
	for _, r := range j.order {
		if !r.startsFirst() {
			continue
		}
		if r.started.At < first+time.Minute {
			started++
		}
		if beside := j.inFlight(r.started.At); j.plan.Limit.InFlight > 0 && beside > j.plan.Limit.InFlight {
			j.report(LimitIgnored, "%d keys are in flight at %v, and the limit is %d", beside, r.started.At, j.plan.Limit.InFlight)
		}
	}
	if most := j.plan.Limit.PerMinute; most > 0 && started > most {
		j.report(LimitIgnored, "%d new keys have run in the first minute, and the limit is %d", started, most)
	}
}

// inFlight is how many keys have a place for certain.
func (j *judge) inFlight(at time.Duration) (n int) {
	for _, r := range j.order {
		sound := !r.faulty && r.lost == nil && !j.tooLong(r) && j.plan.frozen(r.pod) == 0 && !j.plan.ends(r.pod)
		if sound && r.startsFirst() && r.started.At <= at && r.settled > at && !j.changedByHand(r.key, 0, at) {
			n++
		}
	}
	return n
}
