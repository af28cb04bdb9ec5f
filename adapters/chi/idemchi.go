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
// Mount authentication, and middleware.Recoverer, outside of the guard.
// docs/middleware.md has the order of other middleware.
//
// Where a group and its route both have a policy, the route's counts. A policy
// that the outer one cannot see, because another function calls it, makes the
// request fail with 500 wrong_setup before the handler runs. Both declarations are
// named.
//
// The package translates and decides nothing: the rules are in package core.
package idemchi

import (
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Guard declares policies on chi routes. It is safe for concurrent use.
type Guard struct {
	engine  *core.Engine
	routers sync.Map // of chi.Routes to *routers
}

// New returns a guard that works with engine. It panics when engine is nil.
func New(engine *core.Engine) *Guard {
	if engine == nil {
		panic("idemchi: New is given a nil engine: give the one that core.New returned")
	}
	return &Guard{engine: engine}
}

func (g *Guard) mustEngine() *core.Engine {
	if g == nil || g.engine == nil {
		panic("idemchi: the guard is nil: make it with idemchi.New")
	}
	return g.engine
}

// Policy returns a middleware for With, Use, Group or Route. It panics when the
// policy is wrong, as chi does when a pattern is.
func (g *Guard) Policy(opts ...policy.Option) func(http.Handler) http.Handler {
	return g.guarding(g.mustEngine().MustRoute(opts...)).around
}

// Handle returns handler, guarded. It panics when the policy is wrong or handler
// is nil.
func (g *Guard) Handle(handler http.HandlerFunc, opts ...policy.Option) http.HandlerFunc {
	if handler == nil {
		panic("idemchi: Handle is given a nil handler: give the one to guard")
	}
	return g.handle(handler, g.mustEngine().MustRoute(opts...))
}

func (g *Guard) handle(handler http.HandlerFunc, route *core.Route) http.HandlerFunc {
	return (&guarded{g.guarding(route), named(handler)}).ServeHTTP
}

func (g *Guard) guarding(route *core.Route) *guarding {
	return &guarding{
		guard: g, cover: declared.Cover{Engine: g.engine, Route: route},
		guards: route.Guards,
	}
}

// guarding is the middleware of a policy, or of a table. Policy, Handle and Table
// return method values of it, which Audit knows again.
type guarding struct {
	guard   *Guard
	cover   declared.Cover
	guards  func(method string) bool // false: no route of this method is guarded
	checked sync.Map                 // of chi.Routes to a sync.Once; see checkOnce
}

func (m *guarding) around(next http.Handler) http.Handler {
	if next == nil {
		panic("idemchi: the middleware is given a nil handler: give the one to guard")
	}
	return &guarded{m, named(next)}
}

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
	route, r := h.decide(r)
	if route == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	h.cover.Engine.Serve(w, r, route, h.next)
}

// decide returns the policy for a request, or nil, and the request to go on with.
func (h *guarded) decide(r *http.Request) (*core.Route, *http.Request) {
	routing := chi.RouteContext(r.Context())
	known := h.guard.routersOf(routing)
	if known == nil && h.cover.Table != nil {
		panic("idemchi: a Table guards no routes outside of a chi router: mount it with the router's Use")
	}
	if known == nil || h.cover.Table == nil && known.shadowed[h.guarding] == nil {
		return h.cover.Route, r // whatever route it takes
	}
	h.checkOnce(routing.Routes)
	method := methodOf(routing, r)
	if !h.guards(method) {
		return nil, r
	}
	candidates := known.candidates(routing, method, r)
	if len(candidates) == 0 {
		return h.cover.Route, r // chi's handler for unknown paths, or for a path that is written later
	}
	for _, pattern := range candidates {
		key := declared.Key{Method: method, Pattern: pattern}
		if route := h.cover.RouteOf(key); route != nil && !known.guardsInside(h.guarding, key) {
			if h.cover.Table != nil {
				r.Pattern = pattern
			}
			return route, r
		}
	}
	return nil, h.passed(r)
}

// named writes the route's pattern where the engine looks for it. With a policy on
// the router, chi finds the route after the guard has begun. Otherwise the pattern
// is read first: chi reuses its context when middleware outside, such as
// http.TimeoutHandler, does not wait for the handler.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		routing := chi.RouteContext(r.Context())
		switch {
		case routing == nil:
		case isFound(routing):
			r.Pattern = routing.RoutePattern()
		default:
			defer func() { r.Pattern = routing.RoutePattern() }()
		}
		next.ServeHTTP(w, r)
	})
}

// isFound reports whether chi has found the route, and not only a mount.
func isFound(routing *chi.Context) bool {
	n := len(routing.RoutePatterns)
	return n > 0 && !strings.HasSuffix(routing.RoutePatterns[n-1], "*")
}
