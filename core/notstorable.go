package core

import (
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/storage"
)

// leaveOut takes the part out of a settlement that the store refuses for good, and
// reports whether there is a smaller settlement to try instead: the outcome without its
// response, because the side effect has happened, or a release without the last lines of
// steps. done then reports the refusal.
func (r *Run) leaveOut(stored **storage.Result, done *event.Event, err error) bool {
	refused := *stored
	switch {
	case !errors.Is(err, storage.ErrNotStorable):
		return false
	case refused == nil:
		return r.cutSteps()
	case refused.State == storage.Unreplayable && len(refused.Sketch) == 0:
		return false
	}
	*stored = &storage.Result{
		State: storage.Unreplayable, Status: refused.Status, Retain: refused.Retain, Remember: refused.Remember, Repeated: refused.Repeated,
	}
	done.Result, done.Err = event.Unreplayable, cause.OfStore(err)
	return true
}

// reportLost reports that the store will not be called again for a result, or for a
// release if stored is nil. The key is abandoned when the lease ends.
func (r *Run) reportLost(stored *storage.Result, err error) {
	if stored != nil {
		r.report(event.Event{Result: event.ResponseLost, Err: err})
		return
	}
	r.report(event.Event{Result: event.StoreError, Err: err, Final: true})
}

// giveUp ends a settlement that the store refuses for good, without its response too.
// Within the lease the response may be shown.
func (e *Engine) giveUp(run *Run, stored *storage.Result, err error) error {
	e.live.forget(run)
	run.reportLost(stored, err)
	if stored != nil && !run.holdsLease() {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, err)
	}
	return nil
}

// stepsSent notes that the store was sent steps of a size. Lines that it refuses for good
// are taken back, because every later renewal would be refused with them.
func (r *Run) stepsSent(size int, err error) {
	if errors.Is(err, storage.ErrNotStorable) {
		r.cutSteps()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps != nil {
		r.steps.sent = size
	}
}

// cutSteps takes the lines of steps back that the store certainly does not have, and
// reports whether there are any.
func (r *Run) cutSteps() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	cuts := r.steps != nil && len(r.steps.text) > r.steps.sent
	if cuts {
		r.steps.cut()
	}
	return cuts
}

// isFinal reports whether a call that writes would get the same error again.
func isFinal(err error) bool {
	return errors.Is(err, storage.ErrLeaseLost) || errors.Is(err, storage.ErrStoreForbidden) || errors.Is(err, storage.ErrNotStorable)
}
