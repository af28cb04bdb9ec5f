package explore

import (
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// storeCall is one call at the store.
type storeCall struct {
	op           Op
	began, ended time.Duration
	faulty       bool
	err          error
	word         string // the store's verdict
}

// reached reports whether the call reached the store between two times.
func (c *storeCall) reached(since, until time.Duration) bool {
	const reply = 10 * time.Millisecond
	return !c.faulty && c.ended > since && c.began+reply < until
}

// called adds a call at the store.
func (r *run) called(p *Plan, f *Fact) {
	r.addRefusal(f)
	r.addPlace(f)
	switch f.Kind {
	case Called:
		r.asked[f.Op] = f.At
		r.begun[f.Op] = append(r.begun[f.Op], make([]time.Duration, max(0, f.N+1-len(r.begun[f.Op])))...)
		r.begun[f.Op][f.N] = f.At
		// A Release or an Abandon before the handler's end is of an earlier claim.
		settles := f.Op == Complete || f.Op == Commit || (f.Op == Release || f.Op == Abandon) && r.stopped != nil
		if settles && r.settled == 0 {
			r.settled = f.At
		}
	case Applied:
		r.applied(f)
		if f.Op == Release || f.Op == Abandon || f.Op == Complete {
			r.aged = append(r.aged, f)
		}
	default:
		r.calls = append(r.calls, storeCall{f.Op, r.begun[f.Op][f.N], f.At, f.has(Faulty), f.Err, f.Text})
		r.returned(p, f)
	}
}

// applied adds the store's part of a call.
func (r *run) applied(f *Fact) {
	switch {
	case f.has(Granted):
		r.grants = append(r.grants, f)
		if r.stopped == nil { // a claim that comes later is not the handler's
			r.life, r.born, r.revived = f.Life, f.Life, f.Life
		}
		r.taken = 0 // the earlier claim that was taken over had no handler
	case f.Op == Acquire:
		r.ownClaim = r.ownClaim || f.Source == r.id
		if r.stopped == nil && r.shown == nil { // a late claim meets another life of the key
			r.life = f.Life
		}
	case f.Op == Release && f.Text == "released":
		r.releasedAt = f.At
		if r.released == 0 || r.stopped == nil {
			r.released = f.At
		}
	case f.Op == Extend && f.Err == nil:
		r.renewed, r.revived, r.revivedBy = f.At, f.Life, r.begun[f.Op][f.N]
	case f.Op == Abandon && f.Err == nil:
		r.revived, r.revivedBy = f.Life, r.begun[f.Op][f.N]
		if r.abandoned == 0 {
			r.abandoned = f.At
		}
	case f.Op == Complete || f.Op == Commit:
		if f.Err == nil && r.kept == 0 {
			r.kept, r.keptLife = f.At, f.Life
		}
		if f.Err == nil {
			r.life = f.Life // the store may have forgotten the key while the handler ran
		}
	}
}

func (r *run) returned(p *Plan, f *Fact) {
	if f.Op == Acquire {
		r.noClaim = nil
		for _, refusal := range lasting {
			if errors.Is(f.Err, refusal) {
				r.noClaim = f.Err
			}
		}
	}
	if f.Err != nil {
		r.rolledBack = r.rolledBack || errors.Is(f.Err, storage.ErrRolledBack)
		return
	}
	asked := r.asked[f.Op]
	ends := asked + p.jumped(Suspension, asked) + p.Policy.LockTTL
	switch f.Op {
	case Acquire:
		r.claimed(f, ends)
	case Extend:
		r.held = append(r.held, lease{f.At, ends})
	case Complete, Commit:
		r.confirmed = f.At
	case Abandon:
		r.held = append(r.held, lease{f.At, ends - p.Policy.LockTTL})
		if r.left == 0 {
			r.left = f.At
		}
	default:
	}
}

// claimed adds the reply to a claim.
func (r *run) claimed(f *Fact, ends time.Duration) {
	if f.has(Granted) {
		r.held = append(r.held, lease{f.At, ends})
		return
	}
	switch f.Text {
	case "completed", "failed":
		r.fromStore = true
	case "in_progress", "abandoned":
		r.seen = f
	}
}
