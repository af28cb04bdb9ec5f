package core

import (
	"context"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/callers"
)

// execution holds the state of an HTTP handler's run in one allocation. It is the
// settlement of its capture.
type execution struct {
	run      Run
	captured capture
	body     wire.RestoredBody
	small    [464]byte // for the sketch of the request, and behind it for a small response
}

// newExecution returns the run of a new execution, and a buffer for its sketch.
func newExecution() (*Run, []byte) {
	x := new(execution)
	x.run.owner = x
	return &x.run, x.small[:0:fingerprint.MaxSketch]
}

// execute runs the handler under the lease.
func (x *execution) execute(w http.ResponseWriter, r *http.Request, body []byte, next http.Handler) {
	guarded := x.body.In(r, x.run.Context(), body)
	wire.DropCodings(guarded)
	of := x.run.identity
	x.captured.begin(w, guarded, x, &of.shared.responder, of.route.policy.MaxResponseBytes, x.small[len(x.run.sketch):][:0])
	panicked := true
	// No recover, so that a panic continues with its stack.
	defer func() {
		x.body.Close()
		defer wire.HandBack(guarded, r) // also if a callback panics in finish
		x.run.hold.Pattern(guarded.Pattern)
		x.captured.finish(panicked)
	}()
	next.ServeHTTP(&x.captured, guarded)
	panicked = false
}

func (x *execution) outermost() uintptr { return callers.Entry((*execution).execute) }

func (x *execution) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	x.captured.own.refuse(w, r, x.run.identity.route.writeProblem, *p)
}

func (x *execution) cause() error {
	if x.run.context.Err() == nil {
		return nil
	}
	return context.Cause(&x.run.context)
}

func (x *execution) classify(outcome failure.Outcome) failure.Class { return x.run.classify(outcome) }

func (x *execution) conclude(outcome failure.Outcome) (failure.Class, failure.Outcome) {
	class := x.run.conclude(&outcome)
	return class, outcome
}

func (x *execution) finish(class failure.Class, outcome failure.Outcome, response Response) (time.Time, error) {
	err := x.run.finish(class, outcome, response)
	return x.run.hold.Expires(), err
}

// stream settles the run of a response that is sent while the handler runs. A later mark
// must not release its key.
func (x *execution) stream(outcome failure.Outcome, response Response) error {
	x.run.streams = true
	x.run.marks.Seal()
	x.run.hold.Stop()
	err := x.run.settle(failure.ClassCache, outcome, response)
	if err != nil {
		x.run.context.end(err) // nothing that the handler still does can be shown
	}
	return err
}

func (x *execution) close() { x.run.hold.End() }
