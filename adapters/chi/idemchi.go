// Package idemchi guards chi routes with idempotency policies.
//
//	idem := idemchi.New(engine)
//	r.With(idem.Policy(policy.TTLHours(48))).Post("/payments", pay)   // one route
//	r.Post("/refunds", idem.Handle(refund, policy.TTLHours(48)))      // the same, as decoration
//	r.Group(func(r chi.Router) { r.Use(idem.Policy()); ... })         // one policy for many
//	err := idemchi.Mount(r, idem, API{Pay: pay, ...})                 // routes declared by a struct's tags
//	r.Use(idem.Table(table))                                          // routes guarded by a table of policies
//	report := idemchi.Audit(r, idem, table)                           // what is not guarded?
//
// Mount what authenticates, and what recovers panics, outside the guard. Where
// a group's policy and a route's both guard a request, the outer one counts,
// and an event says so. The package translates and decides nothing: the rules
// are in package core.
package idemchi

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Guard declares policies on chi routes. It is safe for concurrent use.
type Guard struct{ engine *core.Engine }

// New returns a guard that works with engine.
func New(engine *core.Engine) *Guard { return &Guard{engine} }

// Policy returns a middleware for With, Use, Group or Route. It panics when the
// policy is wrong, as chi does when a pattern is.
func (g *Guard) Policy(opts ...policy.Option) func(http.Handler) http.Handler {
	return g.guarding(g.engine.MustRoute(opts...)).around
}

// Handle returns handler, guarded. It panics when the policy is wrong.
func (g *Guard) Handle(handler http.HandlerFunc, opts ...policy.Option) http.HandlerFunc {
	return g.handle(handler, g.engine.MustRoute(opts...))
}

func (g *Guard) handle(handler http.HandlerFunc, route *core.Route) http.HandlerFunc {
	return (&guarded{g.guarding(route), named(handler)}).ServeHTTP
}

func (g *Guard) guarding(route *core.Route) *guarding {
	return &guarding{
		cover:   declared.Cover{Engine: g.engine, Route: route},
		routeOf: func(*http.Request) *core.Route { return route },
	}
}

// guarding is the middleware of a policy, or of a table. Policy, Handle and Table
// return method values of it, which Audit knows again.
type guarding struct {
	cover   declared.Cover
	routeOf func(*http.Request) *core.Route // nil: the request is not guarded
}

func (m *guarding) around(next http.Handler) http.Handler { return &guarded{m, named(next)} }

// guarded is a handler that is guarded.
type guarded struct {
	*guarding
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if question, asked := w.(*question); asked {
		question.answer = h.guarding
		return
	}
	if route := h.routeOf(r); route != nil {
		h.cover.Engine.Serve(w, r, route, h.next)
		return
	}
	h.next.ServeHTTP(w, r)
}

// named writes the route's pattern where the engine looks for it: with a policy
// on the router, chi finds the route after the guard has begun.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if routing := chi.RouteContext(r.Context()); routing != nil {
				r.Pattern = routing.RoutePattern()
			}
		}()
		next.ServeHTTP(w, r)
	})
}
