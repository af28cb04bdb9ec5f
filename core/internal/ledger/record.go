package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// report reports an event with the pattern that is known now.
func (h *Hold) report(happened event.Event) { h.run.Report(happened, h.Pattern("")) }

// Pattern returns the route's pattern, and first records found unless empty. A router
// inside the guard sets the pattern after the run has begun.
func (h *Hold) Pattern(found string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found != "" {
		h.pattern = found
	}
	return h.pattern
}

// current returns the lease for a call of the store at calledAt, with its age, with all steps
// so far, and with the pattern that a router inside of the guard has found since the claim.
func (h *Hold) current(calledAt time.Time) storage.Lease {
	lease := h.Lease
	lease.Age = calledAt.Sub(h.Claimed)
	h.mu.Lock()
	defer h.mu.Unlock()
	lease.Origin.Route = Shortened(h.pattern, MaxOriginRoute)
	if h.steps != nil {
		lease.Steps = h.steps.log.Text()
	}
	return lease
}

// Record returns the hold's record for duplicates in this process, as the store would.
// A result that the store has not confirmed counts only within the lease, because
// after the lease another process may have stored a different result.
func (h *Hold) Record() *storage.Record {
	held := h.holds()
	h.mu.Lock()
	defer h.mu.Unlock()
	record := &storage.Record{
		State: storage.InProgress, Attempt: h.Lease.Attempt, LeaseLeft: h.Lease.LockTTL,
		Fingerprint: h.Lease.Fingerprint, Digest: h.Lease.Digest,
		Origin: h.Lease.Origin, Created: h.Claimed.Round(0), // Round strips the monotonic reading
	}
	if h.result != nil && (h.phase == settled || held) {
		record.State, record.Status = h.result.State, h.result.Status
		record.Header, record.Body, record.Sketch = h.result.Header, h.result.Body, h.result.Sketch
		record.Finished, record.Expires = h.finished, h.finished.Add(h.result.Retain)
	}
	return record
}

// IsKept reports whether the run was settled with a response.
func (h *Hold) IsKept() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.result != nil
}

// Expires returns the end of the response's retention, or zero if no response is kept.
func (h *Hold) Expires() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.result == nil || h.result.State == storage.Unreplayable {
		return time.Time{}
	}
	return h.finished.Add(h.result.Retain)
}

// confirm shows the result that the store has confirmed, or nil for a key without one.
func (h *Hold) confirm(result *storage.Result) {
	h.mu.Lock()
	h.result, h.phase = result, settled
	h.mu.Unlock()
	h.run.Confirmed()
}

// wait notes that the result waits for the store from now on. Duplicates in this process
// get it if mayShow is set.
func (h *Hold) wait(result *storage.Result, mayShow bool) {
	now := h.ledger.clock.Now().Monotonic
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.waits = deferred, max(1, now.Sub(h.Claimed))
	if mayShow {
		h.result = result
	}
}

// KeepFor sets the time for which the result is kept, or the policy's for zero. It reports
// false when the settlement has begun.
func (h *Hold) KeepFor(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != running {
		return false
	}
	h.keepFor = d
	return true
}

// Retention returns the time of KeepFor, or the policy's.
func (h *Hold) Retention() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keepFor > 0 {
		return h.keepFor
	}
	return h.policy.TTL
}

// Ages returns the time since the claim, the rest of the lease by the clock of this
// process, and the time for which the result waits for the store, or zero.
func (h *Hold) Ages() (since, left, unsettled time.Duration) {
	now := h.ledger.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	since = now.Monotonic.Sub(h.Claimed)
	if h.waits > 0 {
		unsettled = max(1, since-h.waits)
	}
	return since, now.Left(h.heldUntil), unsettled
}

// Clear notes that the earlier attempts of the key have had no effect.
func (h *Hold) Clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleared, h.keepFor = true, 0 // a KeepFor was for a response that was not found
}

// Fate returns the fate of the key, if its outcome has this class.
func (h *Hold) Fate(class failure.Class) rules.Fate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return rules.FateOf(class, rules.Ending{
		TookOver:    h.Lease.TookOver && !h.cleared,
		UnknownStep: h.steps != nil && (h.steps.unknown || h.steps.running > 0),
	})
}

// BeginTransaction begins the transaction of the run, and returns the handler's context
// in it. The policy's StoreTimeout bounds the call, and the run's context the transaction.
func (h *Hold) BeginTransaction() (handler context.Context, err error) {
	ctx, cancel := context.WithCancel(h.run.Context())
	tooLate := time.AfterFunc(h.policy.StoreTimeout, cancel)
	handler, tx, err := h.ledger.store.begin(ctx, h.Lease)
	if err == nil {
		h.tx = tx // GiveUp rolls back what has begun too late
	}
	if !tooLate.Stop() { // so the error is the end of StoreTimeout, which the store knows as a cancellation
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, cmp.Or(err, context.Canceled))
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	h.endTransaction = cancel
	return handler, nil
}

// InTransaction reports whether the run has a transaction that has not ended.
func (h *Hold) InTransaction() bool { return h.tx != nil }

// rollback undoes the writes of a transactional handler. If the rollback fails, the
// connection is broken, and the database rolls back without a request.
func (h *Hold) rollback() {
	if h.tx == nil {
		return
	}
	err := within(context.WithoutCancel(h.run.Context()), h.policy.StoreTimeout, func(ctx context.Context) error {
		return rollback(ctx, h.tx)
	})
	if err != nil {
		h.report(event.Event{Result: event.StoreError, Err: err})
	}
	h.tx = nil
}

// Abandon ends a run whose RecoverFunc has not found the outcome: the key is abandoned
// again at once, and not only when the lease ends.
func (h *Hold) Abandon() {
	defer h.End()
	defer h.ledger.forget(h)
	h.Stop()
	err := within(context.WithoutCancel(h.run.Context()), h.policy.StoreTimeout, func(ctx context.Context) error {
		return h.ledger.store.extend(ctx, h.current(time.Now()), 0)
	})
	if err != nil { // then the key is abandoned when the lease ends
		h.report(event.Event{Result: event.StoreError, Err: err})
	}
}
