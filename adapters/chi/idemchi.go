// Package idemchi guards chi routes with idempotency policies.
//
//	idem := idemchi.New(engine)
//	r.With(idem.Policy(policy.TTLHours(48))).Post("/payments", pay)   // one route
//	r.Post("/refunds", idem.Handle(refund, policy.TTLHours(48)))      // the same, as decoration
//	r.Group(func(r chi.Router) { r.Use(idem.Policy()); ... })         // one policy for many
//
// Mount what authenticates, and what recovers panics, outside the guard. Where
// a group's policy and a route's both guard a request, the outer one counts,
// and an event says so. The package translates and decides nothing: the rules
// are in package core.
package idemchi

import (
	"net/http"

	"github.com/go-chi/chi/v5"

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
	route := g.engine.MustRoute(opts...)
	return func(next http.Handler) http.Handler {
		next = named(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.engine.Serve(w, r, route, next)
		})
	}
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

// Handle returns handler, guarded. It panics when the policy is wrong.
func (g *Guard) Handle(handler http.HandlerFunc, opts ...policy.Option) http.HandlerFunc {
	return g.Policy(opts...)(handler).ServeHTTP
}
