package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/agenda"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Run is the run that has a Hold.
type Run interface {
	// Context returns the handler's context. It may be read after the end of the run.
	Context() context.Context
	// Scope returns the hash of the scope that was given to Admit.
	Scope() string
	// Report reports an event of the run, whose pattern is given.
	Report(happened event.Event, pattern string)
	// End ends the handler's context: early, if there is a cause.
	End(cause error)
	// Confirmed says that the store has settled the key.
	Confirmed()
}

// phase of a Hold. Each follows the one before it.
type phase uint8

const (
	running  phase = iota // the lease is renewed
	settling              // no more renewals, steps and wishes of the handler
	deferred              // the result waits for the store
	settled               // the store has settled the key
)

// Hold is the lease under which a run's handler runs. The ledger renews it until Stop,
// notices its loss, and settles its key. A Hold is safe for concurrent use.
type Hold struct {
	Lease   storage.Lease // as granted; it must not be changed
	Claimed time.Time     // after any wait: MaxRun starts here
	run     Run
	ledger  *Ledger
	key     *[sha256.Size]byte
	policy  *policy.Policy
	// tx and endTransaction are nil unless the policy is transactional.
	tx             storage.Transaction
	endTransaction context.CancelFunc

	call lazycontext.Context // of the settlement's first call
	turn agenda.Entry        // the next renewal, or the end of the lease or of MaxRun
	// storing is the result that the settlement stores, and finished its time by the wall
	// clock, or zero for a run without a result.
	storing  storage.Result
	finished time.Time

	mu        sync.Mutex
	Waiting   atomic.Int32 // requests of this process that wait for this run; it needs no mutex
	phase     phase
	renewing  bool // an Extend is under way; the settlement waits for renewed
	cutOff    bool // the handler's context has ended, by a lost lease or MaxRun
	cleared   bool // a RecoverFunc found no effect of earlier attempts
	renewed   sync.Cond
	pattern   string          // the route's pattern, or "" until the router sets it
	heldUntil machine.Moment  // when the lease ends at the earliest
	result    *storage.Result // shown to duplicates in this process; nil: no result yet
	waits     time.Duration   // from the claim until the result began to wait for the store, or zero
	keepFor   time.Duration   // see KeepFor; zero: for the policy's TTL
	lastError error           // of the renewals
	steps     *stepping       // nil until the first step of the request's attempts
}

// Begin makes h the hold of a claim that was just granted, and renews the lease from now
// on. It returns a problem code when the engine shuts down, or when another run of the key
// has not ended in this process: the store has lost its claim, or has just left its key
// abandoned. The caller then gives the claim back. key is the storage key in bytes, which
// must not change.
func (l *Ledger) Begin(h *Hold, run Run, c *Claim, key *[sha256.Size]byte, p *policy.Policy, pattern string) (refusal string) {
	h.run, h.ledger, h.key, h.policy = run, l, key, p
	h.Lease, h.Claimed, h.pattern = c.Lease, c.At.Monotonic, pattern
	h.renewed.L, h.heldUntil, h.steps = &h.mu, c.At.Add(c.Lease.LockTTL), c.steps
	if refusal = l.add(h); refusal == "" {
		c.held = true
		h.wakeAt(c.At, h.Claimed.Add(h.Lease.LockTTL/3))
	}
	return refusal
}

// Run returns the run that was given to Begin.
func (h *Hold) Run() Run { return h.run }

// Steps returns the steps of the hold.
func (h *Hold) Steps() *Steps { return (*Steps)(h) }

// wakeAt schedules Due for that time, or earlier for the end of the lease or of MaxRun.
// now may be a little old.
func (h *Hold) wakeAt(now machine.Moment, at time.Time) {
	end := h.endOfMaxRun()
	h.mu.Lock()
	// After a suspension the wall clock is ahead, and decides when the lease ends.
	if lease := now.Monotonic.Add(now.Left(h.heldUntil)); h.phase == running && lease.Before(end) {
		end = lease
	}
	h.mu.Unlock()
	if end.Before(at) {
		at = end
	}
	h.ledger.agenda.Put(&h.turn, h, at)
}

func (h *Hold) endOfMaxRun() time.Time { return h.Claimed.Add(h.policy.MaxRun) }

// Due renews the lease, or ends the handler's context when the lease or MaxRun has
// ended. The agenda calls Due after each third of LockTTL, when the lease ends, at
// MaxRun, and after a suspension of the machine. Most handlers return before the first
// call. The hold is queued again before the store is called, so that a renewal that
// hangs does not hide the end of the lease from the handler.
func (h *Hold) Due() {
	if time.Until(h.endOfMaxRun()) <= 0 {
		h.cutShort(ErrRunTooLong, event.Event{Result: event.RunTooLong, Err: ErrRunTooLong})
		return
	}
	if h.LoseInTime() {
		return // the handler may still run, so this process keeps refusing duplicates
	}
	h.wakeAt(h.ledger.clock.Now(), h.endOfMaxRun())
	if h.beginRenewal() {
		h.renew()
	}
}

// beginRenewal reports whether the caller must renew the lease. The result is false
// for a settled run, such as a streaming response, and during another renewal.
func (h *Hold) beginRenewal() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	begins := h.phase == running && !h.renewing
	h.renewing = h.renewing || begins
	return begins
}

// renew renews the lease once, and schedules the next renewal: after a third of the
// LockTTL, or after a tenth when the store failed. The call ends with the lease at the
// latest.
func (h *Hold) renew() {
	calledAt, err := h.extend(min(h.policy.StoreTimeout, h.Lease.LockTTL/3, h.left()))
	if err == nil {
		h.report(event.Event{Result: event.LeaseRenewed, Renewal: true}) // before the settlement's, which waits
		renewPlace(h)
	}
	h.renewedBy(calledAt, err, true)
}

// renewedBy ends a renewal that was called at calledAt: a scheduled one, or one that
// stores a step.
func (h *Hold) renewedBy(calledAt time.Time, err error, scheduled bool) {
	next := calledAt.Add(h.Lease.LockTTL / 3)
	h.mu.Lock()
	h.renewing, h.lastError = false, err
	h.renewed.Broadcast()
	over := h.cutOff || h.phase != running
	h.mu.Unlock()
	switch {
	case errors.Is(err, storage.ErrLeaseLost):
		// Another attempt holds the key, so the store decides about duplicates.
		h.ledger.forget(h)
		h.cutShort(storage.ErrLeaseLost, event.Event{Result: event.LeaseLost, Err: err, Renewal: scheduled})
		return
	case over:
		return
	case err != nil:
		h.report(event.Event{Result: event.StoreError, Err: err, Renewal: scheduled})
		next = time.Now().Add(h.Lease.LockTTL / 10)
	}
	h.wakeAt(h.ledger.clock.Now(), next)
}

// extend renews the lease at the store, and stores the steps.
func (h *Hold) extend(timeout time.Duration) (calledAt time.Time, err error) {
	calledAt, sent, err := h.renewOnce(context.WithoutCancel(h.run.Context()), timeout)
	h.Steps().sent(sent, err)
	return calledAt, err
}

// renewOnce makes one call at the store, and returns the size of the steps that were sent.
func (h *Hold) renewOnce(ctx context.Context, timeout time.Duration) (calledAt time.Time, sent int, err error) {
	now := h.ledger.clock.Now()
	lease := h.current(now.Monotonic)
	err = within(ctx, timeout, func(ctx context.Context) error {
		return h.ledger.store.extend(ctx, lease, lease.LockTTL)
	})
	if err == nil {
		h.heldFrom(now)
	}
	return now.Monotonic, len(lease.Steps), err
}

// heldFrom records that the store renewed the lease at calledAt or later.
func (h *Hold) heldFrom(calledAt machine.Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heldUntil = calledAt.Add(h.Lease.LockTTL)
}

// left returns the time for which the lease certainly lasts.
func (h *Hold) left() time.Duration {
	now := h.ledger.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Left(h.heldUntil)
}

// holds reports whether the lease certainly has not ended.
func (h *Hold) holds() bool { return h.left() > 0 }

// LoseInTime ends the handler's context if the lease may have ended. It reports
// whether the context was ended early, by this or by an earlier call.
func (h *Hold) LoseInTime() bool {
	now := h.ledger.clock.Now()
	h.mu.Lock()
	over, why := h.cutOff, h.lastError
	expired := !over && h.phase == running && now.Reaches(h.heldUntil)
	h.mu.Unlock()
	if !expired {
		return over
	}
	if why == nil {
		why = context.DeadlineExceeded
	}
	why = fmt.Errorf("%w: it could not be renewed in time: %w", storage.ErrLeaseLost, why)
	h.cutShort(storage.ErrLeaseLost, event.Event{Result: event.LeaseLost, Err: why})
	return true
}

// End ends the hold and the handler's context. Call End once, after Begin has returned "".
func (h *Hold) End() {
	h.ledger.agenda.Close(&h.turn)
	h.run.End(nil)
	if h.endTransaction != nil {
		h.endTransaction()
	}
	if h.ledger.Limit.InFlight > 0 {
		leavePlace(h)
	}
	h.ledger.end()
}

// leavePlace gives the place of a settled key back, before the client gets its response. The
// place of any other key ends with its lease.
func leavePlace(h *Hold) {
	h.mu.Lock()
	over := h.phase == settled
	h.mu.Unlock()
	if over {
		keepPlace(h, h.policy.StoreTimeout, 0)
	}
}

// keepPlace renews the place of a first attempt, or gives it back: later attempts have none.
func keepPlace(h *Hold, timeout, ttl time.Duration) {
	if h.Lease.Attempt == 1 {
		taken := place{h.ledger.Limiter, storage.Place{Scope: h.run.Scope(), Token: h.Lease.Token}}
		taken.keep(context.WithoutCancel(h.run.Context()), timeout, ttl)
	}
}

// cutShort ends the handler's context early with a cause, and reports the event. Later
// calls have no effect.
func (h *Hold) cutShort(cause error, happened event.Event) {
	h.mu.Lock()
	already := h.cutOff
	h.cutOff = true
	h.mu.Unlock()
	if !already {
		h.run.End(cause)
		h.report(happened)
	}
}

// Stop stops renewals, so that none reaches the store after the settlement. The call waits
// for a renewal that is under way, for StoreTimeout at most. No step begins after it, and
// it reports whether one still runs.
func (h *Hold) Stop() (inStep bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = max(h.phase, settling)
	for h.renewing {
		h.renewed.Wait()
	}
	return h.steps != nil && h.steps.running > 0
}
