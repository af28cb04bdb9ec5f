package idemchi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/chi/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// checked wraps a handler below a table, or below a policy with inner policies. The
// table or policy decides by the path and may pass a request that middleware in
// between rewrites; checked guards such a request by the route of its handler.
type checked struct {
	by   *guarding
	next http.Handler
}

// passedKey marks a request that a table or policy passed inside another guard.
type passedKey struct{ by *guarding }

// passed returns the request for the next handler, where m does not guard it. The
// context of a sub-request has the guard of the handler that sends it: passed marks such
// a request, so that checked does not take that guard for its own.
func (m *guarding) passed(r *http.Request) *http.Request {
	if other := core.RouteFrom(r.Context()); other != nil {
		return r.WithContext(context.WithValue(r.Context(), passedKey{m}, other))
	}
	return r
}

// ServeHTTP implements http.Handler.
func (h *checked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routing := chi.RouteContext(r.Context())
	if !h.by.guards(routes.MethodOf(routing, r)) {
		h.next.ServeHTTP(w, r)
		return
	}
	known := h.by.guard.routersOf(routing)
	key := h.by.checkOnce(routing.Routes, known).keyOf(h, routing, r)
	route, guard := h.by.cover.RouteOf(key), core.RouteFrom(r.Context())
	switch {
	case route == nil, known.guardsInside(h.by, key):
	case guard == nil, r.Context().Value(passedKey{h.by}) == any(guard): // not guarded since h.by
		r.Pattern = key.Pattern
		h.by.serve(w, r, route, h.next)
		return
	case guard != route && h.by.rowOf(guard) != "":
		h.by.cover.Engine.Warn(r, route, fmt.Errorf("idemchi: middleware inside the table sends requests of %s to %s, "+
			"and the policy of the first row counts: mount the middleware outside the table", h.by.rowOf(guard), key))
	}
	h.next.ServeHTTP(w, r)
}

// rowOf returns the row that has the policy, or "".
func (m *guarding) rowOf(route *core.Route) string {
	for key, row := range m.cover.Rows {
		if row == route {
			return key.String()
		}
	}
	return ""
}

// checking is locked while handlers are replaced or all handlers are read.
var checking sync.Mutex

// checks are the routes of a root below a table or policy.
type checks struct {
	by      *guarding
	root    chi.Routes
	begun   bool                        // guarded by checking
	done    atomic.Bool                 // no handler below the table or policy is replaced any more
	wrapped map[declared.Key][]*checked // every request of such a route has passed the table or policy
	partial bool                        // a row of the table is not in wrapped
	hidden  *chi.Mux                    // the rows, for paths without a route: a handler that is no chi.Mux may serve them
	shared  map[*chi.Mux]bool           // the routers that a request reaches without the table or policy
}

// checksOf returns the checks of m below a root, which may not be done.
func checksOf(m *guarding, root chi.Routes) *checks {
	all, found := m.checked.Load(root)
	if !found {
		all, _ = m.checked.LoadOrStore(root, &checks{
			by: m, root: root, wrapped: make(map[declared.Key][]*checked), hidden: chi.NewRouter(), shared: make(map[*chi.Mux]bool),
		})
	}
	return all.(*checks) //nolint:forcetypeassert // the map holds only this type
}

// checkOnce wraps each handler of the routers below m in a checked. Each request to
// these routers passes m first and waits until checkOnce is done. So a router that is
// mounted outside of m too keeps its handlers. The handlers that the tables and policies
// inside of m wrap are wrapped too, because m searches the same routers.
func (m *guarding) checkOnce(root chi.Routes, known *routers) *checks {
	all := checksOf(m, root)
	if !all.done.Load() {
		checking.Lock()
		defer checking.Unlock()
		for _, begun := range all.begin(known, nil) {
			begun.done.Store(true)
		}
	}
	return all
}

// begin wraps the handlers, and adds these checks, and those inside, to the ones that have
// begun. checking must be locked.
func (c *checks) begin(known *routers, begun []*checks) []*checks {
	if c.begun {
		return begun
	}
	c.begun = true
	c.findShared(c.root)
	c.wrapIn(c.root, "")
	for row := range c.by.cover.Rows {
		c.partial = c.partial || c.wrapped[row] == nil
		// No router has a pattern that chi refuses.
		_ = declared.Try(new(policy.Declaration), func() { c.hidden.Method(row.Method, row.Pattern, http.NotFoundHandler()) })
	}
	begun = append(begun, c)
	for _, covers := range known.shadowed[c.by] {
		for _, inner := range covers {
			if known.decidesByRoute(inner) {
				begun = checksOf(inner, c.root).begin(known, begun)
			}
		}
	}
	return begun
}

// findShared searches for the routers that a request reaches without the table or policy.
func (c *checks) findShared(router chi.Routes) {
	if c.by.isIn(router.Middlewares()) {
		return
	}
	c.shared[routes.MuxOf(router)] = true
	for _, route := range router.Routes() {
		if route.SubRoutes != nil && !c.by.isAround(route) {
			c.findShared(route.SubRoutes)
		}
	}
}

func (c *checks) wrapIn(router chi.Routes, prefix string) {
	mux := routes.MuxOf(router)
	for _, route := range router.Routes() {
		if route.SubRoutes != nil {
			c.wrapIn(route.SubRoutes, prefix+route.Pattern)
			continue
		}
		for method, handler := range route.Handlers {
			if mux == nil || c.shared[mux] || method == "*" {
				continue
			}
			found := checkedBy(handler, c.by)
			if found == nil {
				found = &checked{c.by, handler}
				mux.Method(method, route.Pattern, found)
			}
			key := declared.Key{Method: method, Pattern: routes.Canonical(prefix + route.Pattern)}
			c.wrapped[key] = append(c.wrapped[key], found)
		}
	}
}

// isAround reports whether With or Group has put m around a mount.
func (m *guarding) isAround(mount chi.Route) bool {
	chain, _ := mount.Handlers["*"].(*chi.ChainHandler)
	return chain != nil && m.isIn(chain.Middlewares)
}

func (m *guarding) isIn(middlewares chi.Middlewares) bool {
	return slices.ContainsFunc(middlewares, func(middleware func(http.Handler) http.Handler) bool {
		return isGuard(middleware) && guardingOfMiddleware(middleware) == m
	})
}

func checkedBy(handler http.Handler, m *guarding) *checked {
	for {
		found, isChecked := handler.(*checked)
		if !isChecked || found.by == m {
			return found
		}
		handler = found.next
	}
}

// keyOf returns the route by which a request has come to h, or a zero Key. If a handler
// has sent the request to its router again, chi's pattern begins with the pattern of
// that handler.
func (c *checks) keyOf(h *checked, routing *chi.Context, r *http.Request) declared.Key {
	key := declared.Key{Method: routes.MethodOf(routing, r), Pattern: routes.Canonical(r.Pattern)}
	if slices.Contains(c.wrapped[key], h) {
		return key
	}
	for own, handlers := range c.wrapped {
		if own.Method == key.Method && strings.HasSuffix(key.Pattern, own.Pattern) && slices.Contains(handlers, h) {
			return own
		}
	}
	return declared.Key{}
}

// reportUnguarded reports a passed request that came to the route of a row without a
// checked: a route below a handler that is no chi router.
func (h *guarded) reportUnguarded(r *http.Request, all *checks) {
	routing := chi.RouteContext(r.Context())
	method, pattern := routes.MethodOf(routing, r), routes.Canonical(routing.RoutePattern())
	known := h.guard.routersOf(routing)
	for row, route := range h.cover.Rows {
		isHere := row.Pattern == pattern || !known.routes[row] && strings.HasSuffix(pattern, row.Pattern)
		if row.Method == method && isHere && all.wrapped[row] == nil && !known.guardsInside(h.guarding, row) {
			r.Pattern = pattern
			h.cover.Engine.Warn(r, route, fmt.Errorf("idemchi: %s %s ran without a guard: the table has the row %s, and sees no such route: "+
				"mount the route's router by chi's Mount or Route, and path rewriting outside the table", method, pattern, row))
		}
	}
}
