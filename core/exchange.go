package core

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// exchange is one request on its way through the engine to its handler. It does not hold
// the attempt, which could not stay on the stack beside a writer.
type exchange struct {
	shared *shared
	w      http.ResponseWriter
	r      *http.Request
	next   http.Handler
}

// guard serves a request that has a key.
func (x *exchange) guard(a *attempt) {
	body := a.body
	if a.route.keyField == nil {
		buffer := wire.NewBuffer()
		defer buffer.Free()
		var refusal *problem.Problem
		body, refusal = wire.ReadBody(x.r, buffer, a.route.policy.MaxRequestBytes)
		if refusal != nil {
			x.refuse(a, refusal)
			return
		}
	}
	a.readRequest(x.r, body)
	a.alloc = newExecution
	decision := a.begin(x.r.Context())
	switch {
	case decision.Run != nil:
		decision.Run.owner.(*execution).execute(x.w, x.r, body, x.next) //nolint:forcetypeassert // newExecution has made it
	case decision.Record != nil:
		x.replay(a, decision.Record)
	case decision.Problem != nil:
		x.respond(a.route, decision.Problem)
	default:
		x.unprotected(a.identity, body)
	}
}

// unprotected runs the handler without a store.
func (x *exchange) unprotected(i *identity, body []byte) {
	var restored wire.RestoredBody
	defer restored.Close()
	unguarded := restored.In(x.r, unprotected(x.r.Context(), i), body)
	defer wire.HandBack(unguarded, x.r)
	x.next.ServeHTTP(x.w, unguarded)
}

// respond writes a problem in the form of the route.
func (x *exchange) respond(route *Route, p *problem.Problem) {
	x.shared.responder.refuse(x.w, x.r, route.writeProblem, *p)
}

// refuse responds to a request that never reaches the store. On a route that only
// observes, next responds.
func (x *exchange) refuse(a *attempt, refusal *problem.Problem) {
	x.report(a, event.Event{Result: event.Refused, Code: refusal.Code, Err: cmp.Or(a.failure, errors.New(x.shared.responder.naming(*refusal).Error))})
	if a.route.observes {
		passThrough(x.w, x.r, a.route, x.next)
		return
	}
	wire.Dispose(x.w, x.r, refusal)
	x.respond(a.route, refusal)
}

// refuseSetup responds where the guard is mounted in a wrong place. On a route that only
// observes, next responds.
func (x *exchange) refuseSetup(a *attempt, reason error) {
	x.report(a, event.Event{Result: event.WrongSetup, Code: problem.WrongSetup, Err: reason})
	if a.route.observes {
		passThrough(x.w, x.r, a.route, x.next)
		return
	}
	x.respond(a.route, problem.New(problem.WrongSetup, reason.Error()))
}

// replay writes a stored response.
func (x *exchange) replay(a *attempt, record *storage.Record) {
	if err := x.shared.responder.setReplay(x.w.Header(), x.r, record); err != nil {
		x.report(a, event.Event{Result: event.CallbackPanicked, Err: err})
	}
	wire.WriteResponse(x.w, record.Status, record.Body)
}

func (x *exchange) report(a *attempt, happened event.Event) { a.report(x.r.Context(), &happened) }

// passThrough runs the handler without a run.
func passThrough(w http.ResponseWriter, r *http.Request, route *Route, next http.Handler) {
	passed := r.WithContext(unrecorded(r.Context(), route))
	defer func() { wire.HandBack(passed, r) }()
	next.ServeHTTP(w, passed)
}
