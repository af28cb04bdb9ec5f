package core

import (
	"context"
	"net/http"
)

// guardedHandler is a handler behind a policy of its own.
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

// guardsInside reports whether a policy inside of next guards the request. It
// sees what Handler returns, also through a http.ServeMux.
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

// outside returns the route of a policy outside that guards or observes this very
// request already, or nil.
func (s *subject) outside(ctx context.Context) *Route {
	if run := runFrom(ctx); run != nil && run.subject.digest == s.digest {
		return run.subject.route
	}
	if watched := watchedIn(ctx); watched != nil && watched.digest == s.digest {
		return watched.route
	}
	return nil
}
