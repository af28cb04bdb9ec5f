package idemchi

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/chi/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
)

// routers is an outermost router with all routers below.
type routers struct {
	byPrefix map[string]chi.Routes // routers by the prefix of their mount
	routes   map[declared.Key]bool // the routes of all of them
	// shadowed has the policies and tables with others inside, and by route the
	// inner policies and tables.
	shadowed map[*guarding]map[declared.Key][]*guarding
}

func newRouters(root chi.Routes) *routers {
	checking.Lock()
	defer checking.Unlock()
	all := &routers{map[string]chi.Routes{"": root}, make(map[declared.Key]bool), make(map[*guarding]map[declared.Key][]*guarding)}
	all.add("", root)
	walk(root, func(key declared.Key, endpoint http.Handler, middlewares []func(http.Handler) http.Handler) {
		all.routes[key] = true
		covers := coversOf(endpoint, middlewares)
		for i, outer := range covers {
			if inner := covers[i+1:]; len(inner) > 0 {
				if all.shadowed[outer] == nil {
					all.shadowed[outer] = make(map[declared.Key][]*guarding)
				}
				all.shadowed[outer][key] = inner
			}
		}
	})
	return all
}

func (s *routers) add(prefix string, of chi.Routes) {
	for _, route := range of.Routes() {
		if route.SubRoutes == nil {
			continue
		}
		at := routes.PrefixOf(prefix + route.Pattern)
		if s.byPrefix[at] == nil { // a router mounted at the outer router's own path is found by the outer router
			s.byPrefix[at] = route.SubRoutes
		}
		s.add(at, route.SubRoutes)
	}
}

// guardsInside reports whether a policy or a table inside outer guards the route.
func (s *routers) guardsInside(outer *guarding, route declared.Key) bool {
	return slices.ContainsFunc(s.shadowed[outer][route], func(inner *guarding) bool {
		return inner != outer && inner.cover.RouteOf(route) != nil
	})
}

// decidesByRoute reports whether m has not one policy for every route.
func (s *routers) decidesByRoute(m *guarding) bool {
	return m.cover.Table != nil || s.shadowed[m] != nil
}

// candidates predicts the pattern of a request's route. It returns two patterns if chi
// gives a mount and the mounted router's "/" one pattern.
func (s *routers) candidates(routing *chi.Context, method string, r *http.Request) []string {
	prefix := routes.Prefix(routing)
	router := s.byPrefix[prefix]
	if router == nil { // With and Group: chi has found the route
		return []string{routing.RoutePattern()}
	}
	found := routes.Find(router, method, routes.PathBelow(routing, r))
	if found == "" {
		return nil
	}
	found = routes.Canonical(prefix + found)
	if mounted := s.byPrefix[found]; mounted != nil { // the mount's own path is the "/" of its router
		return []string{found, routes.Canonical(found + mounted.Find(chi.NewRouteContext(), method, "/"))}
	}
	return []string{found}
}

// walk calls see for each route, with the middlewares from outside to inside.
func walk(root chi.Routes, see func(key declared.Key, endpoint http.Handler, middlewares []func(http.Handler) http.Handler)) {
	_ = chi.Walk(root, func(method, pattern string, endpoint http.Handler, middlewares ...func(http.Handler) http.Handler) error {
		for found, isChecked := endpoint.(*checked); isChecked; found, isChecked = endpoint.(*checked) {
			endpoint = found.next
		}
		if chain, isChain := endpoint.(*chi.ChainHandler); isChain { // chi.Walk sees only the checked
			endpoint, middlewares = chain.Endpoint, append(middlewares, chain.Middlewares...)
		}
		see(declared.Key{Method: method, Pattern: routes.Canonical(pattern)}, endpoint, middlewares)
		return nil
	}) // the callback never returns an error
}

func isGuard(middleware func(http.Handler) http.Handler) bool {
	return codeOf(middleware) == aroundCode
}

// coversOf returns the policies and tables around an endpoint, from outside to inside.
func coversOf(endpoint http.Handler, middlewares []func(http.Handler) http.Handler) []*guarding {
	var covers []*guarding
	for _, middleware := range middlewares {
		if isGuard(middleware) {
			covers = append(covers, guardingOfMiddleware(middleware))
		}
	}
	if codeOf(endpoint) == serveCode {
		covers = append(covers, guardingOf(endpoint))
	}
	return covers
}
