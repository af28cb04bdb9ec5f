package core

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// Handler returns a handler that guards next with a policy. It panics when the policy
// is wrong or next is nil, as http.ServeMux does for a wrong pattern. See Serve for
// the writer and the request that next gets.
//
//	mux.Handle("POST /payments", engine.Handler(pay, policy.TTLHours(48)))
//
// If next is a http.ServeMux and some of its handlers have their own policies, those
// policies apply, and this policy guards the other handlers.
func (e *Engine) Handler(next http.Handler, opts ...policy.Option) http.Handler {
	if isNilHandler(next) {
		panic(errNoHandler)
	}
	return &guardedHandler{e, e.MustRoute(opts...), next}
}

func isNilHandler(h http.Handler) bool {
	function, ok := h.(http.HandlerFunc)
	return h == nil || ok && function == nil
}

// errNoHandler is the panic of Handler without a handler.
var errNoHandler = errors.New("oncekey: Handler is given a nil http.Handler: give the one to guard")

// guardedHandler is a handler with its policy.
type guardedHandler struct {
	engine *Engine
	route  *Route
	next   http.Handler
}

// ServeHTTP implements http.Handler.
func (h *guardedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if guardsInside(h.next, r) {
		h.next.ServeHTTP(w, r)
		return
	}
	h.engine.Serve(w, r, h.route, h.next)
}

// guardsInside reports whether a policy inside of next guards the request. It finds
// the handlers that Handler returns, also inside a http.ServeMux.
func guardsInside(next http.Handler, r *http.Request) bool {
	for {
		switch h := next.(type) {
		case *guardedHandler:
			if h.route.Guards(r.Method) {
				return true
			}
			next = h.next
		case *http.ServeMux:
			next, _ = h.Handler(r)
		default:
			return false
		}
	}
}

// Serve guards one request. It runs next, or replays the stored response, or responds
// with a problem. Adapters call Serve.
//
// next gets a writer that buffers the response until the response is stored, and a
// request with an equal body and the run's context (see Run.Context). The request has
// no Accept-Encoding, because the response may be replayed to a client that accepts no
// coding: compress outside the guard. When next returns, the files of a multipart form
// that next parsed are removed.
//
// The writer supports http.ResponseController, http.Flusher and http.Hijacker. A
// response that is flushed, hijacked or larger than MaxResponseBytes is sent directly
// and cannot be replayed. The exception is a flush by an httputil.ReverseProxy, which
// flushes every response of unknown length. Such a flush is held until the handler
// returns, or until the upstream sends more after a second. Flushes of event streams
// (text/event-stream and similar types) are never held. A response shorter than its
// Content-Length is sent unchanged and cannot be replayed.
//
// Once the store has confirmed that a response is sent directly, the client's disconnect
// ends the handler's context, as in net/http: no retry gets that response. A stream whose
// status or marks release the key, or leave it abandoned, keeps its context. On a hijacked
// connection net/http notices no disconnect.
//
// The run ends when next returns. A panic of next is settled and continues. So next
// must not return before its work is done: http.TimeoutHandler inside the guard
// returns early, and its 503 releases the key while the handler still runs. Put
// http.TimeoutHandler around the router, or set policy.MaxRun.
//
// A sub-request that a handler makes (r.Clone with another URL.Path) is identified by
// that path. If the sub-request passes an http.StripPrefix of another mount, set
// RequestURI to the whole path too.
//
// For a nil engine, route or handler Serve responds with 500 and names the argument.
func (e *Engine) Serve(w http.ResponseWriter, r *http.Request, route *Route, next http.Handler) {
	if missing := e.missing(route, next); missing != "" {
		http.Error(w, "oncekey: Serve is given a nil "+missing, http.StatusInternalServerError)
		return
	}
	if !route.Guards(r.Method) {
		e.reportUnguarded(r, route)
		next.ServeHTTP(w, r)
		return
	}
	if route.policy.SkipIf != nil && e.skips(r, route) {
		passThrough(w, r, route, next)
		return
	}
	a := admit(route)
	refusal := e.identify(r, a)
	outer := a.outside(r.Context())
	switch {
	case refusal != nil:
		e.refuse(w, r, a, refusal, next)
	case a.request.Key == "":
		e.report(r.Context(), a, event.Event{Result: event.NoKey})
		passThrough(w, r, route, next)
	case outer == route: // one policy, mounted twice
		next.ServeHTTP(w, r)
	case outer != nil:
		e.refuseSetup(w, r, a, errTwoPolicies(outer, route), next)
	case route.observes:
		e.observe(w, r, a, next)
	default:
		e.guard(w, r, a, next)
	}
}

// missing names the argument of Serve that is nil, or "".
func (e *Engine) missing(route *Route, next http.Handler) string {
	switch {
	case e == nil:
		return "Engine"
	case route == nil:
		return "Route"
	case isNilHandler(next):
		return "http.Handler"
	default:
		return ""
	}
}

// outside returns the route of an outer policy that already guards or observes this
// request, or nil.
func (s *subject) outside(ctx context.Context) *Route {
	if run := runFrom(ctx); run != nil && run.subject.digest == s.digest {
		return run.subject.route
	}
	if watched := watchedIn(ctx); watched != nil && watched.digest == s.digest {
		return watched.route
	}
	return nil
}

// guard serves a request that has a key.
func (e *Engine) guard(w http.ResponseWriter, r *http.Request, a *admission, next http.Handler) {
	body := a.input.Body
	if a.route.keyField == nil {
		buffer := wire.NewBuffer()
		defer buffer.Free()
		var refusal *problem.Problem
		body, refusal = wire.ReadBody(r, buffer, a.route.policy.MaxRequestBytes)
		if refusal != nil {
			e.refuse(w, r, a, refusal, next)
			return
		}
	}
	a.read(a.fingerprinted(r, body))
	a.served = true
	decision := e.begin(r.Context(), a)
	switch {
	case decision.Run != nil:
		e.execute(w, r, decision.Run, body, next)
	case decision.Record != nil:
		e.replay(w, r, a, decision.Record)
	case decision.Problem != nil:
		e.responder.refuse(w, r, a.route.writeProblem, *decision.Problem)
	default:
		e.unprotected(w, r, a.route, body, next)
	}
}

// passThrough runs the handler without a run.
func passThrough(w http.ResponseWriter, r *http.Request, route *Route, next http.Handler) {
	passed := r.WithContext(unrecorded(r.Context(), route))
	defer func() { removeFiles(passed, r) }()
	next.ServeHTTP(w, passed)
}

// unprotected runs the handler without a store.
func (e *Engine) unprotected(w http.ResponseWriter, r *http.Request, route *Route, body []byte, next http.Handler) {
	var restored wire.RestoredBody
	defer restored.Close()
	unguarded := restored.In(r, unrecorded(r.Context(), route), body)
	defer removeFiles(unguarded, r)
	next.ServeHTTP(w, unguarded)
}

// refuse responds to a request that never reaches the store. On a route that only
// observes, next responds.
func (e *Engine) refuse(w http.ResponseWriter, r *http.Request, a *admission, refusal *problem.Problem, next http.Handler) {
	e.report(r.Context(), a, event.Event{Result: event.Refused, Code: refusal.Code, Err: errors.New(e.responder.naming(*refusal).Error)})
	if a.route.observes {
		passThrough(w, r, a.route, next)
		return
	}
	wire.Dispose(w, r, refusal)
	e.responder.refuse(w, r, a.route.writeProblem, *refusal)
}

// execution holds the state of an HTTP handler's run in one allocation. It is the
// settlement of its capture.
type execution struct {
	run      Run
	captured capture
	body     wire.RestoredBody
}

// execute runs the handler under the lease.
func (e *Engine) execute(w http.ResponseWriter, r *http.Request, run *Run, body []byte, next http.Handler) {
	x := run.execution
	guarded := x.body.In(r, run.Context(), body)
	withoutCodings(guarded)
	x.captured.begin(w, guarded, x)
	panicked := true
	// No recover, so that a panic continues with its stack.
	defer func() {
		x.body.Close()
		defer removeFiles(guarded, r) // also if a callback panics in finish
		run.routePattern(guarded.Pattern)
		x.captured.finish(panicked)
	}()
	next.ServeHTTP(&x.captured, guarded)
	panicked = false
}

func (x *execution) responder() *responder { return &x.run.engine.responder }

func (x *execution) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	x.responder().refuse(w, r, x.run.subject.route.writeProblem, *p)
}

func (x *execution) maxBytes() int64 { return x.run.subject.route.policy.MaxResponseBytes }

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
	err := x.run.engine.finish(&x.run, class, outcome, response)
	return x.run.expires(), err
}

// stream settles the run of a response that is sent while the handler runs. A later mark
// must not release its key.
func (x *execution) stream(outcome failure.Outcome, response Response) error {
	x.run.streams = true
	x.run.marks.Seal()
	x.run.stopRenewing()
	err := x.run.engine.settle(&x.run, failure.ClassCache, outcome, response)
	if err != nil {
		x.run.context.end(err) // nothing that the handler still does can be shown
	}
	return err
}

func (x *execution) close() { x.run.close() }

// withoutCodings removes Accept-Encoding from the handler's request, because an encoded
// response would be replayed to clients that do not accept the coding. The header is
// copied, because outer middleware still reads the original.
func withoutCodings(guarded *http.Request) {
	if _, accepts := guarded.Header["Accept-Encoding"]; accepts {
		guarded.Header = maps.Clone(guarded.Header)
		delete(guarded.Header, "Accept-Encoding")
	}
}

// removeFiles removes the files of a form that a handler has parsed. net/http removes
// only files of the server's own request, and not of copies.
func removeFiles(guarded, original *http.Request) {
	if form := guarded.MultipartForm; form != nil && form != original.MultipartForm {
		_ = form.RemoveAll() // net/http ignores the error too: the client cannot act on it
	}
}

// replay writes a stored response.
func (e *Engine) replay(w http.ResponseWriter, r *http.Request, a *admission, record *storage.Record) {
	if err := e.responder.setReplay(w.Header(), r, record); err != nil {
		e.report(r.Context(), a, event.Event{Result: event.CallbackPanicked, Err: err})
	}
	wire.WriteResponse(w, record.Status, record.Body)
}

// observe serves a request that has a key, on a route that only observes. The handler
// runs with the writer, the context and the body of an unguarded request. Events report
// the decisions that a guard would make. For that the engine claims and settles the
// keys at the store, without storing responses. Failures are reported and do not
// change the response. An unreachable store delays the request by StoreTimeout.
func (e *Engine) observe(w http.ResponseWriter, r *http.Request, a *admission, next http.Handler) {
	watched := &observedContext{Context: r.Context(), subject: a.subject}
	body, refusal := a.input.Body, (*problem.Problem)(nil)
	if a.route.keyField == nil {
		body, refusal = wire.PeekBody(r, a.route.policy.MaxRequestBytes)
	}
	original := r
	r = r.WithContext(watched)
	defer func() { removeFiles(r, original) }()
	if refusal != nil {
		e.refuse(w, r, a, refusal, next)
		return
	}
	a.read(a.fingerprinted(r, body))
	decision := e.begin(watched, a)
	if decision.Run == nil {
		next.ServeHTTP(w, r)
		return
	}
	watched.marks = &decision.Run.marks
	e.watch(w, r, decision.Run, next)
}

// watch runs an observed handler that a guard would have run, and settles the run.
func (e *Engine) watch(w http.ResponseWriter, r *http.Request, run *Run, next http.Handler) {
	var seen responseSeen
	outcome := failure.Outcome{Panicked: true}
	defer func() {
		run.routePattern(r.Pattern)
		outcome.Status = seen.status()
		var response Response
		response, run.wouldKeep = seen.response(r, w.Header(), outcome.Panicked, run.subject.route.policy.MaxResponseBytes)
		_ = e.Finish(run, outcome, response) // Finish reports failures
	}()
	seen.watch(w, func(w http.ResponseWriter) { next.ServeHTTP(w, r) })
	outcome.Panicked = false
}
