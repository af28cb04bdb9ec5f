package core

import (
	"context"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// Run is the right to run the handler of one key, once. Engine.Begin returns a Run,
// and the caller must pass the Run to Engine.Finish in a defer, so that a panic ends
// the run too. The engine renews the lease until then.
type Run struct {
	identity *identity
	hold     ledger.Hold
	sketch   []byte // of the request, or nil
	marks    failure.Marks
	context  runContext
	handler  context.Context // context, or its child with the transaction
	// wouldKeep says for an observed run that a guard would have kept the response.
	wouldKeep bool
	// streams says that the response is sent while the handler runs. It is set before the
	// settlement.
	streams bool
	// finished says that Finish was called.
	finished onceFlag
	// owner is the execution that the run is a part of, or nil.
	owner any
}

// loneRun is a run without an execution.
type loneRun struct {
	run    Run
	sketch [128]byte
}

// newLoneRun returns a new run, and a buffer for its sketch.
func newLoneRun() (*Run, []byte) {
	lone := new(loneRun)
	return &lone.run, lone.sketch[:0]
}

// runOf returns the run of a hold, or nil.
func runOf(hold *ledger.Hold) *Run {
	if hold == nil {
		return nil
	}
	return (*Run)(hold.Run().(*holder)) //nolint:forcetypeassert // newRun gives holders only
}

// holder is a run as its hold sees it.
type holder Run

// Context implements ledger.Run.
func (h *holder) Context() context.Context { return &h.context }

// Scope implements ledger.Run.
func (h *holder) Scope() string { return limitedScope(h.identity) }

// Report implements ledger.Run.
func (h *holder) Report(happened event.Event, pattern string) {
	happened.Attempt, happened.Route = h.hold.Lease.Attempt, pattern
	h.identity.report(&h.context, &happened)
}

// End implements ledger.Run.
func (h *holder) End(cause error) { h.context.end(cause) }

// Confirmed implements ledger.Run. If the response streams, no retry needs the handler any
// more, and the handler's context follows the client.
func (h *holder) Confirmed() {
	if h.streams {
		h.context.follow()
	}
}

func (r *Run) report(happened event.Event) { (*holder)(r).Report(happened, r.hold.Pattern("")) }

// Context returns the handler's context, which has the values and the deadline of
// Begin's context, the lease, and the marks of package failure. A client's disconnect
// does not cancel the context, unless the response streams (see Engine.Serve). The
// context ends when the lease is lost (cause ErrLeaseLost), at the policy's MaxRun
// (cause ErrRunTooLong), and by Finish.
func (r *Run) Context() context.Context { return r.handler }

// Lease returns the lease that the run holds.
func (r *Run) Lease() storage.Lease { return r.hold.Lease }
