package core

import (
	"fmt"
	"net/http"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
)

// Refuse responds with 500 wrong_setup. Adapters call Refuse where the guard is
// mounted in a place in which it cannot protect the handler. A route that only
// observes runs next instead. The event event.WrongSetup contains the reason.
func (e *Engine) Refuse(w http.ResponseWriter, r *http.Request, route *Route, reason error, next http.Handler) {
	e.refuseSetup(w, r, e.unread(r, route), reason, next)
}

func (e *Engine) refuseSetup(w http.ResponseWriter, r *http.Request, a *admission, reason error, next http.Handler) {
	e.report(r.Context(), a, event.Event{Result: event.WrongSetup, Code: problem.WrongSetup, Err: reason})
	if a.route.observes {
		passThrough(w, r, a.route, next)
		return
	}
	e.responder.refuse(w, r, a.route.writeProblem, *problem.New(problem.WrongSetup, reason.Error()))
}

// Warn reports event.WrongSetup, and leaves the response as it is. Adapters call Warn
// where the handler runs, or has run, with less protection than its policy declares. The
// event contains the reason.
func (e *Engine) Warn(r *http.Request, route *Route, reason error) {
	e.report(r.Context(), e.unread(r, route), event.Event{Result: event.WrongSetup, Err: reason})
}

// reportUnguarded reports, once for each route, that the policy does not guard a PUT or
// DELETE. Both methods change resources, and are not among the default Methods.
func (e *Engine) reportUnguarded(r *http.Request, route *Route) {
	if r.Method != http.MethodPut && r.Method != http.MethodDelete || !route.unguarded.first() {
		return
	}
	e.Warn(r, route, fmt.Errorf(
		"oncekey: the policy declared at %s does not guard %s: add policy.Methods(%q), or mount it on the other routes only", route.place, r.Method, r.Method))
}

// errTwoPolicies returns an error that names both policies of a request.
func errTwoPolicies(outer, inner *Route) error {
	return fmt.Errorf("oncekey: two policies guard this request, one declared at %s and inside of it one declared at %s: "+
		"keep one of them, or mount them where the router shows the inner one to the outer (idemchi, idemgin, or a http.ServeMux in Engine.Handler)",
		outer.place, inner.place)
}
