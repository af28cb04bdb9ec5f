package explore

import (
	"context"
	"slices"
	"time"

	"github.com/oncekey/oncekey/failure"
)

// run is the history of one request.
type run struct {
	id       int
	plan     *Request // nil for a probe
	pod, key int
	probing  bool
	sent     *Fact
	shown    *Fact // Shown or Unshown
	started  *Fact
	stopped  *Fact
	// stoppedBy is the check at which the handler found its context ended.
	stoppedBy *Fact
	grants    []*Fact // leases of the store
	effects   []*Fact
	born      int           // the key's life at the claim
	revived   int           // the key's life at the last renewal, which may come after the end of the record's time
	revivedBy time.Duration // when the call of that renewal began
	life      int           // the key's life at the settlement
	// held has the end of the lease by the clock of the run's process, after each
	// successful Acquire and Extend.
	held      []lease
	asked     [numOps]time.Duration // when the last call of each kind began
	confirmed time.Duration         // when the process learned that the store has the response
	settled   time.Duration         // when the process first asked the store to settle
	taken     time.Duration         // when another request took the key over
	faulty    bool
	decisions int
	ended     int           // settlement events
	endedAt   time.Duration // of the last settlement event
	executes  bool
	deferred  time.Duration // when the settlement was deferred to the background
	lateOf    uint64        // the attempt whose settlement that is: the request may claim its key again
	lateEnd   time.Duration // when that settlement ended, or zero
	nested    []*Fact       // effects inside core.Do

	calls      []storeCall
	begun      [numOps][]time.Duration // when each call began
	lost       *Fact                   // the event of the lost lease
	looked     *Fact                   // the RecoverFunc's check
	waited     []*Fact                 // Awaits during which the context did not end
	released   time.Duration           // when the store first released the key
	releasedAt time.Duration           // when the store last released the key
	fromStore  bool                    // the store returned a response to the request
	ownClaim   bool                    // the store returned the request's own claim
	seen       *Fact                   // the first record in progress that the store returned
	rolledBack bool                    // the database refused the commit
	broke      int                     // one bit for each callback that panicked
	abandoned  time.Duration           // when the store first ended the lease, because the outcome is unknown
	left       time.Duration           // when the process learned that
	renewed    time.Duration           // when the store last renewed the lease
	kept       time.Duration           // when the store first kept the response
	keptLife   int                     // the key's life at that time
	entered    []*Fact                 // beginnings of steps
	stepped    []*Fact                 // effects in steps
	recorded   []*Fact                 // results of steps
	aged       []*Fact                 // calls that settle or release
	stepFailed []*Fact                 // errors of steps
	keepFor    time.Duration           // the handler's KeepFor, or zero
	stepLate   *Fact                   // a step that began after the end of its context
	unknown    bool                    // the outcome of a step is unknown
	noClaim    error                   // of the last claim, if it is no outage

	inquiry *inquiry // nil, if the run is no question of a reconciler

	placed    []*Fact       // calls that gave or renewed the run's place in the limit of its scope
	counted   time.Duration // when the limit first counted the key, or one inside of core.Do
	admission *Fact         // the store's last reply about it

	refused      time.Duration // when the process learned that the store refuses the response for good
	refusedAgain time.Duration // when the store got the response once more
}

// lease ends by the wall clock of its own process.
type lease struct{ known, until time.Duration }

// heldUntil is the end of the lease as the process knew it at a moment, by the
// process's wall clock.
func (r *run) heldUntil(at time.Duration) time.Duration {
	var until time.Duration
	for _, l := range r.held {
		if l.known <= at {
			until = l.until
		}
	}
	return until
}

// tookOver reports whether the run claimed an abandoned key.
func (r *run) tookOver() bool {
	last := false
	for _, g := range r.grants {
		if r.started == nil || g.At <= r.started.At { // a late call may claim the key once more
			last = g.has(TookOver)
		}
	}
	return last
}

func (r *run) guarded() bool { return r.started != nil && r.started.has(Guarded) }

// runsOf sorts the facts by their requests.
func runsOf(p *Plan, h History) (order []*run, byID map[int]*run) {
	byID = make(map[int]*run, len(p.Requests)+4)
	for _, f := range h.Facts {
		if f.Request < 0 {
			continue
		}
		r := byID[f.Request]
		if r == nil {
			r = &run{id: f.Request, plan: p.request(f.Request), pod: f.Pod}
			byID[f.Request] = r
			order = append(order, r)
		}
		if f.isPlace() && r.counted == 0 {
			r.counted = f.At
		}
		if f.Inner {
			r.addInner(f)
			continue
		}
		r.add(p, f)
		if f.Kind == Applied && f.has(TookOver) && f.Source >= 0 && f.Source != f.Request {
			if taken := byID[f.Source]; taken != nil && taken.taken == 0 {
				taken.taken = f.At
			}
		}
	}
	return order, byID
}

func (r *run) addInner(f *Fact) {
	switch f.Kind {
	case Took:
		r.nested = append(r.nested, f)
	default:
		r.faulty = r.faulty || f.has(Faulty)
	}
}

func (r *run) add(p *Plan, f *Fact) {
	r.faulty = r.faulty || f.has(Faulty)
	switch f.Kind {
	case Sent:
		r.sent, r.key, r.probing = f, f.Key, f.has(Probing)
	case Shown, Unshown:
		r.shown = f
	case Observed:
		r.observed(f)
	case Called, Applied, Returned:
		r.called(p, f)
	case Inquired, Asked, Answered:
		r.inquired(f)
	default:
		r.handled(f)
	}
}

// handled adds a fact of the handler.
func (r *run) handled(f *Fact) {
	switch f.Kind {
	case Started:
		r.started = f
	case Stopped:
		r.stopped = f
	case Took:
		r.effects = append(r.effects, f)
	case Broke:
		r.broke |= 1 << f.N
	case Entered:
		r.entered = append(r.entered, f)
	case Stepped:
		r.stepped = append(r.stepped, f)
	case Recorded:
		r.recorded = append(r.recorded, f)
	case Ran:
		switch {
		case f.has(Stopping) && r.stoppedBy == nil:
			r.stoppedBy = f
		case f.has(Waited):
			r.waited = append(r.waited, f)
		case f.Text == recovers:
			r.looked = f
		case f.Text == keptFor:
			r.keepFor = f.Since
		case f.Text == stepBeginsLate:
			r.stepLate = f
		case f.Text == stepFails:
			isCutOff := f.Err == context.Canceled || f.Err == context.DeadlineExceeded //nolint:errorlint // a step that was not called wraps them
			r.unknown = r.unknown || isCutOff || failure.IsUncertain(f.Err)
			r.addFailure(f)
		}
	default:
	}
}

func (r *run) observed(f *Fact) {
	if isDecision(f.Text) {
		r.decisions++
	}
	before := r.ended
	defer func() {
		if r.ended > before {
			r.endedAt = f.At
			if f.Attempt == 0 || f.Attempt == r.lateOf {
				r.lateEnd = f.At
			}
		}
	}()
	switch f.Text {
	case "execute":
		r.executes = true
	case "lease_lost":
		r.ended++
		if r.lost == nil {
			r.lost = f
		}
	case "settle_deferred":
		r.deferred, r.lateOf, r.lateEnd = f.At, f.Attempt, 0
	case "store_error":
		if r.deferred > 0 { // the deferred settlement has ended
			r.ended++
		}
	case "completed", "failed", "unreplayable", "delete_key", "retryable", "uncertain", "response_lost", "not_confirmed":
		r.ended++
	}
}

var decisions = []string{
	"execute", "replay", "no_key", "skipped", "in_progress", "key_reused", "not_replayable", "key_expired", "outcome_unknown", "refused",
	"scope_limited", "unprotected", "unavailable",
}

func isDecision(event string) bool {
	return slices.Contains(decisions, event)
}
