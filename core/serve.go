package core

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net/http"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/callers"
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
	route := must(e.RouteWith(Declaration{Place: callers.Place()}, opts...))
	if missing(e, route, next) != "" {
		panic(errNoHandler)
	}
	return &guardedHandler{e, route, next}
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
	switch { // a h2c.NewHandler in next must not take the connection: its requests would go around the guard
	case h.route.observes:
	case r.Method == "PRI":
		w = struct{ http.ResponseWriter }{w}
	case httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "h2c"):
		r.Header.Del("Upgrade") // a server may ignore it
	}
	h.engine.Serve(w, r, h.route, h.next)
}

// guardsInside reports whether a policy inside of next guards the request. It finds the handlers that
// Handler returns, also inside a http.ServeMux, and gives the request the pattern that this one finds.
func guardsInside(next http.Handler, r *http.Request) bool {
	for {
		switch h := next.(type) {
		case *guardedHandler:
			if h.route.Guards(r.Method) {
				return true
			}
			next = h.next
		case *http.ServeMux:
			next, r.Pattern = h.Handler(r) // as its ServeHTTP does: replays and refusals have the pattern too
		default:
			return false
		}
	}
}

// Serve guards one request. It runs next, or replays the stored response, or responds
// with a problem. Adapters call Serve.
//
// next gets a writer that buffers the response until the response is stored, and a request with an
// equal body and the run's context (see Run.Context). The request has no Accept-Encoding, because
// the response may be replayed to a client that accepts no coding: compress outside the guard. When
// next returns, the files of a multipart form that next parsed are removed.
//
// The writer supports http.ResponseController, http.Flusher and http.Hijacker. A response that is
// flushed, hijacked or larger than MaxResponseBytes is sent directly and cannot be replayed. The
// exception is a flush by an httputil.ReverseProxy, which flushes every response of unknown length.
// Such a flush is held until the handler returns, or until the upstream sends more after a second.
// Flushes of event streams (text/event-stream and similar types) are never held. A response shorter
// than its Content-Length is sent unchanged and cannot be replayed.
//
// Once the store has confirmed that a response is sent directly, the client's disconnect ends the
// handler's context, as in net/http: no retry gets that response. A stream whose status or marks
// release the key, or leave it abandoned, keeps its context. On a hijacked connection net/http
// notices no disconnect.
//
// The run ends when next returns. A panic of next is settled and continues. So next must not return
// before its work is done: http.TimeoutHandler inside the guard returns early, and its 503 releases
// the key while the handler still runs. Put http.TimeoutHandler around the router, or set
// policy.MaxRun.
//
// A sub-request that a handler makes (r.Clone with another URL.Path) is identified by that path. If
// the sub-request passes an http.StripPrefix of another mount, set RequestURI to the whole path too.
//
// For a nil engine, route or handler, and for a Route that no engine has made, Serve
// responds with 500 and names the argument.
func (e *Engine) Serve(w http.ResponseWriter, r *http.Request, route *Route, next http.Handler) {
	if missing := missing(e, route, next); missing != "" {
		http.Error(w, "oncekey: Serve is given no "+missing, http.StatusInternalServerError)
		return
	}
	e.responder.echoKey(w.Header(), r)
	if !route.Guards(r.Method) {
		serveUnguarded(&e.shared, w, r, route, next)
		return
	}
	if route.policy.SkipIf != nil && skips(&e.shared, r, route) {
		passThrough(w, r, route, next)
		return
	}
	a := newAttempt(&e.shared, route)
	refusal := a.identify(r)
	x := exchange{&e.shared, w, r, next}
	outer := a.outside(r.Context())
	switch {
	case refusal != nil:
		x.refuse(a, refusal)
	case a.request.Key == "":
		a.report(r.Context(), &event.Event{Result: event.NoKey})
		passThrough(w, r, route, next)
	case outer == route: // one policy, mounted twice
		next.ServeHTTP(w, r)
	case outer != nil:
		x.refuseSetup(a, errTwoPolicies(outer, route))
	case route.observes:
		x.observe(a)
	default:
		x.guard(a)
	}
}

// Begin decides whether a request runs the handler. The values and the deadline of
// ctx reach the handler, and the cancellation of ctx only ends a Wait. The values may be
// read after Finish (see Do). A nil route means the default policy. A request with an empty Key is
// refused where the policy requires one, and otherwise runs without protection. A Key needs a Scope.
//
// Serve and Do call Begin and Finish. Call both yourself for another kind of request.
func (e *Engine) Begin(ctx context.Context, route *Route, request Request) Decision {
	_ = ctx.Err() // a nil ctx panics here, and not after the claim
	a := newAttempt(&e.shared, cmp.Or(route, e.defaults))
	a.request = request
	a.address()
	refusal := a.checkAgeOf(nil)
	if request.Key == "" && a.route.policy.Required {
		refusal = problem.New(problem.KeyMissing, "Request.Key is empty")
	} else if request.Key != "" && request.Scope == "" {
		refusal = problem.New(problem.PrincipalMissing, "Request.Scope is empty")
	}
	switch {
	case refusal != nil:
		a.report(ctx, &event.Event{Result: event.Refused, Code: refusal.Code, Err: errors.New(refusal.Error)})
		return Decision{Problem: refusal}
	case request.Key == "":
		a.report(ctx, &event.Event{Result: event.NoKey})
		return Decision{}
	}
	a.claimant = newClaimant(a.identity)
	a.record, a.keyHash = hex.EncodeToString(a.digest[:]), event.KeyHash(request.Key)
	return a.begin(ctx)
}

// Finish settles and ends the run. It stores the response, or releases the key for the
// next request. The policy's Classifier, or else failure.Classify, decides from the
// outcome, to which Finish adds the handler's marks.
//
// An error means that the response must not be shown to the client:
//
//   - ErrLeaseLost: another attempt holds the key.
//   - ErrNotConfirmed: the store did not confirm the response, and this process may
//     have lost its lease; or the reply to a transaction's commit was lost. The
//     engine continues to settle in the background, and a retry gets the result.
//   - storage.ErrRolledBack: the database refused the commit. The key is released.
//
// Finish returns nil when the store refuses the response for good (storage.ErrNotStorable): the store then
// remembers that the request has finished, and retries get 409 not_replayable. It also returns nil when the
// store is unavailable while the lease is held. The client gets the response, and the engine stores the
// response in the background and renews the lease until then.
//
// Finish returns within twice the policy's StoreTimeout, because Finish may wait for a renewal
// first. A refused response takes one StoreTimeout more, and an InFlight of WithScopeLimit two.
// Finish takes no context, so that a client's disconnect cannot interrupt the settlement. A second
// call for a run returns an error, and does nothing.
func (e *Engine) Finish(run *Run, outcome failure.Outcome, response Response) error {
	if !run.finished.first() {
		return errFinished
	}
	response.Header = wire.ValidFields(response.Header)
	return run.end(outcome, response)
}

var errFinished = errors.New("oncekey: Finish was called before for this run")

// missing names the argument of Serve that is nil, or that guards nothing, or "".
func missing(e *Engine, route *Route, next http.Handler) string {
	function, isFunction := next.(http.HandlerFunc)
	switch {
	case e == nil:
		return "Engine"
	case route == nil, route.exclusion == nil: // compile sets it
		return "Route"
	case next == nil, isFunction && function == nil:
		return "http.Handler"
	}
	return ""
}

// Refuse responds with 500 wrong_setup. Adapters call Refuse where the guard is
// mounted in a place in which it cannot protect the handler. A route that only
// observes runs next instead. The event event.WrongSetup contains the reason.
func (e *Engine) Refuse(w http.ResponseWriter, r *http.Request, route *Route, reason error, next http.Handler) {
	e.responder.echoKey(w.Header(), r)
	x := exchange{&e.shared, w, r, next}
	x.refuseSetup(unread(&e.shared, r, route), reason)
}

// Warn reports event.WrongSetup, and leaves the response as it is. Adapters call Warn
// where the handler runs, or has run, with less protection than its policy declares. The
// event contains the reason.
func (e *Engine) Warn(r *http.Request, route *Route, reason error) {
	unread(&e.shared, r, route).report(r.Context(), &event.Event{Result: event.WrongSetup, Err: reason})
}
