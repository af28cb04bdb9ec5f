package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// ending is the end of a run at the store.
type ending struct {
	fate   rules.Fate
	result *storage.Result // of Keep
	done   event.Event     // reported once the store has confirmed
}

// Keep settles the key with a result, which must not change any more. An error means that
// the response must not be shown (see Engine.Finish). done is reported once the store has
// confirmed.
func (h *Hold) Keep(result storage.Result, done event.Event) error {
	now := h.ledger.clock.Now()
	h.storing, h.finished = result, now.Wall()
	return h.settle(now.Monotonic, &ending{rules.Keep, &h.storing, done})
}

// GiveUp ends the run without a result: the key is released or abandoned.
func (h *Hold) GiveUp(fate rules.Fate, done event.Event) error {
	h.rollback()
	return h.settle(time.Now(), &ending{fate, nil, done})
}

// settle settles the key by one store call within StoreTimeout from calledAt, and by a second one if the
// store refuses the response for good. After a failure the background continues.
func (h *Hold) settle(calledAt time.Time, end *ending) error {
	err := h.settleOnce(calledAt, end)
	if h.tx == nil && h.leaveOut(end, err) {
		err = h.settleOnce(time.Now(), end)
	}
	latency := time.Since(calledAt)
	switch {
	case err == nil:
		h.confirm(end.result)
		h.ledger.forget(h)
		end.done.StoreLatency = latency
		h.report(end.done)
		return nil
	case errors.Is(err, storage.ErrLeaseLost):
		h.ledger.forget(h)
		h.report(event.Event{Result: event.LeaseLost, Err: err, StoreLatency: latency, Final: true})
		if end.result == nil { // a response that is not stored may be shown
			return nil
		}
		return err
	case end.result != nil && h.tx != nil:
		return h.notCommitted(err)
	case errors.Is(err, storage.ErrNotStorable):
		return h.lose(end, err)
	default:
		return h.deferTo(end, event.Event{Result: event.SettleDeferred, Err: err, StoreLatency: latency})
	}
}

// settleOnce settles the key by one call at the store. The first context is a field of the
// hold, which saves an allocation.
func (h *Hold) settleOnce(calledAt time.Time, end *ending) error {
	call := &h.call
	if call.Used() {
		call = new(lazycontext.Context)
	}
	defer call.Release()
	return h.callFor(call.Detach(h.run.Context(), calledAt, h.policy.StoreTimeout), calledAt, end)
}

// callFor makes the store's call for an ending.
func (h *Hold) callFor(ctx context.Context, calledAt time.Time, end *ending) error {
	lease := h.current(calledAt)
	switch {
	case end.fate == rules.Abandon:
		return h.ledger.store.extend(ctx, lease, 0)
	case end.fate == rules.Release:
		lease.Steps = h.Steps().kept()
		return h.ledger.store.release(ctx, lease)
	case h.tx != nil:
		return commit(ctx, h.tx, lease, *end.result)
	default:
		return h.ledger.store.complete(ctx, lease, *end.result)
	}
}

// leaveOut takes the part out of an ending that the store refuses for good, and reports
// whether there is a smaller ending to try instead: the outcome without its response,
// because the side effect has happened, or a release without the last lines of steps. The
// event then reports the refusal.
func (h *Hold) leaveOut(end *ending, err error) bool {
	refused := end.result
	switch {
	case !errors.Is(err, storage.ErrNotStorable):
		return false
	case refused == nil:
		return h.Steps().cut()
	case refused.State == storage.Unreplayable && len(refused.Sketch) == 0:
		return false
	}
	end.result = &storage.Result{
		State: storage.Unreplayable, Status: refused.Status, Retain: refused.Retain, Remember: refused.Remember, Repeated: refused.Repeated,
	}
	end.done.Result, end.done.Err = event.Unreplayable, cause.OfStore(err)
	return true
}

// deferTo continues a settlement in the background. Within the lease no other process
// holds the key, and the response may be shown. After the lease another attempt may store
// a different response.
func (h *Hold) deferTo(end *ending, happened event.Event) error {
	mayShow := end.result == nil || h.holds()
	if !mayShow {
		happened.Code = problem.NotConfirmed
	}
	h.report(happened)
	h.settleLater(*end, mayShow)
	if !mayShow {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, happened.Err)
	}
	return nil
}

// notCommitted ends a run with a failed commit, by releasing the key. If the
// transaction was committed and only the reply was lost, the release has no effect, and
// the next request gets the response. A handler that has ended the transaction by itself
// may have committed its writes without the response, so its key is left abandoned.
func (h *Hold) notCommitted(why error) error {
	h.tx = nil
	class := failure.ClassDeleteKey
	if errors.Is(why, storage.ErrTransactionEnded) {
		class = failure.ClassUncertain
	}
	fate := h.Fate(class)
	end := &ending{fate, nil, event.Event{Result: rules.EventOf(fate, class), Err: why}}
	if errors.Is(why, storage.ErrRolledBack) {
		_ = h.settle(time.Now(), end) // settle reports and repeats failures
		return why
	}
	h.report(event.Event{Result: event.NotConfirmed, Code: problem.NotConfirmed, Err: why})
	h.settleLater(*end, false)
	return fmt.Errorf("%w: %w", ErrNotConfirmed, why)
}

// lose ends a settlement that the store refuses for good, without its response too. Within
// the lease the response may be shown.
func (h *Hold) lose(end *ending, err error) error {
	h.ledger.forget(h)
	h.reportLost(end, err)
	if end.result != nil && !h.holds() {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, err)
	}
	return nil
}

// reportLost reports that the store will not be called again for a result or a release.
// The key is abandoned when the lease ends.
func (h *Hold) reportLost(end *ending, err error) {
	if end.result != nil {
		h.report(event.Event{Result: event.ResponseLost, Err: err})
		return
	}
	h.report(event.Event{Result: event.StoreError, Err: err, Final: true})
}

// settleLater repeats the call until success, the end of the budget, or the end of
// Shutdown's context. Until then this process keeps the hold, so that its duplicates
// get the response if mayShow is set. The lease of a run with a response is renewed,
// so that no other process takes the key over.
func (h *Hold) settleLater(end ending, mayShow bool) {
	h.wait(end.result, mayShow)
	h.ledger.addUnsettled(1)
	h.ledger.inBackground(h.run.Context(), func(ctx context.Context) {
		defer h.ledger.addUnsettled(-1)
		defer h.ledger.forget(h)
		ctx, cancel := context.WithTimeout(ctx, h.ledger.SettleBudget)
		defer cancel()
		err := h.keepSettling(ctx, &end)
		switch lost := errors.Is(err, storage.ErrLeaseLost); {
		case err == nil:
			h.confirm(end.result)
			h.report(end.done)
		case lost && !(mayShow && end.result != nil): // no client was shown the response
			h.report(event.Event{Result: event.LeaseLost, Err: err, Final: true})
		default:
			h.reportLost(&end, err)
		}
	})
}

// keepSettling repeats the call until the result is final, and leaves the stored result in
// end. Meanwhile the lease is renewed if there is a response to store. The lease is
// not renewed for a release: if only the reply of a release was lost, a later Extend would
// claim the key again.
func (h *Hold) keepSettling(ctx context.Context, end *ending) error {
	if end.result != nil {
		again := *end.result // duplicates may be reading the first
		again.Repeated, end.result = true, &again
	}
	call := func(ctx context.Context) error { return h.callFor(ctx, time.Now(), end) }
	for try := 0; sleep(ctx, settleBackoff(try)); try++ {
		err := within(ctx, h.policy.StoreTimeout, call)
		if h.leaveOut(end, err) {
			err = within(ctx, h.policy.StoreTimeout, call)
		}
		if err == nil || rules.WriteLasts(err) {
			return err
		}
		if end.result != nil && h.left() < h.Lease.LockTTL*2/3 {
			_, _, _ = h.renewOnce(ctx, h.policy.StoreTimeout) // the next round shows whether another attempt holds the key
		}
	}
	return context.Cause(ctx)
}
