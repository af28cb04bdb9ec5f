// Package idemchi guards chi routes with idempotency policies.
//
//	idem := idemchi.New(engine)
//	r.With(idem.Policy(policy.TTLHours(48))).Post("/payments", pay)   // one route
//	r.Post("/refunds", idem.Handle(refund, policy.TTLHours(48)))      // a wrapped handler
//	r.Group(func(r chi.Router) { r.Use(idem.Policy()); ... })         // one policy for many
//	err := idemchi.Mount(r, idem, API{Pay: pay, ...})                 // routes declared by a struct's tags
//	r.Use(idem.Table(table))                                          // routes guarded by a table of policies
//	report := idemchi.Audit(r, idem, table)                           // lists unguarded routes
//
// Mount authentication, and middleware.Recoverer, outside the guard.
// docs/guarding.md has the order of other middleware.
//
// If a group and its route both have a policy, the route's policy applies. If another
// function calls the inner policy, the outer policy cannot see it. Such a request
// fails with 500 wrong_setup before the handler runs, and the error names both
// declarations.
//
// The package only connects chi with package core, which has all rules.
package idemchi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/chi/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Guard declares policies on chi routes. It is safe for concurrent use.
type Guard struct {
	engine  *core.Engine
	routers sync.Map // from chi.Routes to *routers
	tables  declared.Tables
}

// New returns a guard that uses engine. It panics when engine is nil.
func New(engine *core.Engine) *Guard {
	if engine == nil {
		panic("idemchi: New is given a nil engine: give the engine from core.New")
	}
	return &Guard{engine: engine}
}

func (g *Guard) mustEngine() *core.Engine {
	if g == nil {
		panic("idemchi: the guard is nil: make it with idemchi.New")
	}
	return g.engine
}

// Policy returns a middleware for With, Use, Group or Route. It panics when the
// policy is invalid, as chi does for an invalid pattern.
func (g *Guard) Policy(opts ...policy.Option) func(http.Handler) http.Handler {
	return g.guarding(declared.MustRoute(g.mustEngine(), declared.Place(), opts)).around
}

// Handle returns a guarded handler. It panics when the policy is invalid or handler
// is nil.
func (g *Guard) Handle(handler http.HandlerFunc, opts ...policy.Option) http.HandlerFunc {
	if handler == nil {
		panic("idemchi: Handle is given a nil handler: give the handler to guard")
	}
	return g.handle(handler, declared.MustRoute(g.mustEngine(), declared.Place(), opts))
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

// guarding is the middleware of a policy or of a table. Policy, Handle and Table
// return its method values, which Audit recognizes.
type guarding struct {
	guard   *Guard
	cover   declared.Cover
	guards  func(method string) bool // false: no route of this method is guarded
	checked sync.Map                 // from chi.Routes to *checks; see checkOnce
}

func (m *guarding) around(next http.Handler) http.Handler {
	if function, is := next.(http.HandlerFunc); next == nil || is && function == nil {
		panic("idemchi: the middleware is given a nil handler: give the handler to guard")
	}
	return &guarded{m, named(next)}
}

// guarded is a guarded handler.
type guarded struct {
	*guarding
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if probe, isProbe := w.(*probe); isProbe {
		probe.found = h.guarding
		return
	}
	route, r, all := h.decide(r)
	if route != nil {
		h.serve(w, r, route, h.next)
		return
	}
	if all.partial {
		defer h.reportUnguarded(r, all)
	}
	h.next.ServeHTTP(w, r)
}

// serve guards a request of the route, or refuses a request whose own method is another
// than the method of its route in chi's context.
func (m *guarding) serve(w http.ResponseWriter, r *http.Request, route *core.Route, next http.Handler) {
	if m.cover.Table != nil && !route.Guards(r.Method) {
		m.cover.Engine.Refuse(w, r, route, fmt.Errorf("idemchi: %s is a route of a table, and the request has the method %s: "+
			"middleware that sets chi's RouteMethod must set the request's Method too", r.Pattern, r.Method), next)
		return
	}
	m.cover.Engine.Serve(w, r, route, next)
}

// decide returns the policy for a request, or nil, and the request for the next
// handler.
func (h *guarded) decide(r *http.Request) (*core.Route, *http.Request, *checks) {
	routing := chi.RouteContext(r.Context())
	known := h.guard.routersOf(routing)
	if known == nil && h.cover.Table != nil {
		panic("idemchi: a Table guards only routes of a chi router: mount the table with the router's Use")
	}
	if known == nil {
		return h.cover.Route, r, nil
	}
	method := routes.MethodOf(routing, r)
	if !known.decidesByRoute(h.guarding) {
		if r.Pattern != "" && h.guards(method) && !routes.IsFound(routing) { // of a mount, or of a ServeMux outside
			r.Pattern = append(known.candidates(routing, method, r), "")[0]
		}
		return h.cover.Route, r, nil
	}
	all := h.checkOnce(routing.Routes, known)
	if h.guards(method) {
		if route, pattern := h.predict(routing, known, all, method, r); route != nil {
			r.Pattern = pattern
			return route, r, all
		}
	}
	return nil, h.passed(r), all // not ours, unless inner middleware rewrites the path
}

// routersOf returns the routers of the request, or nil if no chi router serves the
// request.
func (g *Guard) routersOf(routing *chi.Context) *routers {
	if routing == nil || routing.Routes == nil {
		return nil
	}
	known, _ := g.routers.Load(routing.Routes)
	if known == nil {
		known, _ = g.routers.LoadOrStore(routing.Routes, newRouters(routing.Routes))
	}
	return known.(*routers) //nolint:forcetypeassert // the map holds only this type
}

// predict returns the policy for the route that the path has now, and its pattern.
func (h *guarded) predict(routing *chi.Context, known *routers, all *checks, method string, r *http.Request) (*core.Route, string) {
	candidates := known.candidates(routing, method, r)
	for _, pattern := range candidates {
		key := declared.Key{Method: method, Pattern: pattern}
		if route := h.cover.RouteOf(key); route != nil && !known.guardsInside(h.guarding, key) {
			return route, pattern
		}
	}
	if len(candidates) == 0 && h.cover.Route != nil {
		return h.cover.Route, "" // an unknown path, or inner middleware rewrites the path
	}
	if len(candidates) > 0 && !strings.HasSuffix(candidates[0], "*") {
		return nil, ""
	}
	key := declared.Key{Method: method, Pattern: routes.Find(all.hidden, method, routes.Prefix(routing)+routes.PathBelow(routing, r))}
	if len(candidates) > 0 && known.routes[key] || len(candidates) == 0 && known.guardsInside(h.guarding, key) {
		return nil, ""
	}
	return h.cover.Rows[key], key.Pattern
}

// named sets r.Pattern, where the engine reads the route's pattern. With a policy on
// the router, chi finds the route only after the guard has begun, and may set the pattern
// of a copy, which inner middleware has made.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if routing := chi.RouteContext(r.Context()); routing != nil && !routes.IsFound(routing) {
			defer func() { r.Pattern = routing.RoutePattern() }()
		}
		next.ServeHTTP(w, r)
	})
}
