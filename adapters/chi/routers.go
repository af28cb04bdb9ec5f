package idemchi

import (
	"cmp"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/internal/declared"
)

// routers is the router that serves a request first, with all that is below it.
type routers struct {
	byPrefix map[string]chi.Routes // the prefix that each is mounted at
	// shadowed are the policies and tables that have another one inside, with the
	// routes where they do.
	shadowed map[*guarding]map[declared.Key][]*guarding
}

// routersOf returns what is known of the router that serves the request; nil
// where no chi router does.
func (g *Guard) routersOf(routing *chi.Context) *routers {
	if routing == nil || routing.Routes == nil {
		return nil
	}
	known, _ := g.routers.Load(routing.Routes)
	if known == nil {
		known, _ = g.routers.LoadOrStore(routing.Routes, newRouters(routing.Routes))
	}
	return known.(*routers) //nolint:forcetypeassert // nothing else is stored
}

func newRouters(root chi.Routes) *routers {
	checking.Lock()
	defer checking.Unlock()
	all := &routers{map[string]chi.Routes{"": root}, make(map[*guarding]map[declared.Key][]*guarding)}
	all.add("", root)
	walk(root, func(key declared.Key, endpoint http.Handler, middlewares []func(http.Handler) http.Handler) {
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

func (s *routers) add(prefix string, routes chi.Routes) {
	for _, route := range routes.Routes() {
		if route.SubRoutes == nil {
			continue
		}
		at := prefixOf(prefix + route.Pattern)
		if s.byPrefix[at] == nil { // or it is mounted at its router's own path, which finds it
			s.byPrefix[at] = route.SubRoutes
		}
		s.add(at, route.SubRoutes)
	}
}

// guardsInside reports whether a policy or a table inside of outer guards the
// route.
func (s *routers) guardsInside(outer *guarding, route declared.Key) bool {
	return slices.ContainsFunc(s.shadowed[outer][route], func(inner *guarding) bool {
		return inner != outer && inner.cover.RouteOf(route) != nil
	})
}

func methodOf(routing *chi.Context, r *http.Request) string {
	return cmp.Or(routing.RouteMethod, r.Method)
}

// candidates returns the pattern of the route that a request is going to take:
// two of them where chi does not tell a mount from what is mounted there.
func (s *routers) candidates(routing *chi.Context, method string, r *http.Request) []string {
	prefix := prefixOf(canonical(strings.Join(routing.RoutePatterns, "")))
	router := s.byPrefix[prefix]
	if router == nil { // With and Group: the route is found already
		return []string{routing.RoutePattern()}
	}
	searched := pathBelow(routing, r)
	found := router.Find(chi.NewRouteContext(), method, searched)
	if found == "" { // unless what comes later cleans the path, nothing is found
		found = router.Find(chi.NewRouteContext(), method, path.Clean(searched))
	}
	if found == "" {
		return nil
	}
	found = canonical(prefix + found)
	if mounted := s.byPrefix[found]; mounted != nil { // its own path is its "/"
		return []string{found, canonical(found + mounted.Find(chi.NewRouteContext(), method, "/"))}
	}
	return []string{found}
}

// pathBelow is the path that the next router is going to search. In the
// middleware of a mount (With, Group) chi has not cut off its prefix yet.
func pathBelow(routing *chi.Context, r *http.Request) string {
	if n := len(routing.RoutePatterns); n > 0 && !strings.HasSuffix(routing.RoutePatterns[n-1], "*") {
		return "/"
	}
	if n := len(routing.URLParams.Keys); n > 0 && routing.URLParams.Keys[n-1] == "*" && routing.URLParams.Values[n-1] != "" {
		return "/" + routing.URLParams.Values[n-1]
	}
	return cmp.Or(routing.RoutePath, r.URL.RawPath, r.URL.Path, "/")
}

// canonical is a pattern as chi.Context.RoutePattern spells it.
func canonical(pattern string) string {
	for strings.Contains(pattern, "/*/") {
		pattern = strings.ReplaceAll(pattern, "/*/", "/")
	}
	return cmp.Or(strings.TrimSuffix(pattern, "/"), "/")
}

// prefixOf is the prefix of a mount's pattern: "/v1/*" is mounted at "/v1".
func prefixOf(pattern string) string {
	return strings.TrimSuffix(strings.TrimSuffix(pattern, "*"), "/")
}

// walk calls see for each route, with the middlewares from the outermost inwards.
func walk(root chi.Routes, see func(key declared.Key, endpoint http.Handler, middlewares []func(http.Handler) http.Handler)) {
	_ = chi.Walk(root, func(method, pattern string, endpoint http.Handler, middlewares ...func(http.Handler) http.Handler) error {
		if found, isChecked := endpoint.(*checked); isChecked {
			endpoint = found.next
			if chain, isChain := endpoint.(*chi.ChainHandler); isChain {
				endpoint, middlewares = chain.Endpoint, append(middlewares, chain.Middlewares...)
			}
		}
		see(declared.Key{Method: method, Pattern: canonical(pattern)}, endpoint, middlewares)
		return nil
	}) // it returns what the function does
}

func isGuard(middleware func(http.Handler) http.Handler) bool {
	return codeOf(middleware) == aroundCode
}

// coversOf returns the policies and the tables around an endpoint, from the
// outermost inwards.
func coversOf(endpoint http.Handler, middlewares []func(http.Handler) http.Handler) []*guarding {
	var covers []*guarding
	for _, middleware := range middlewares {
		if isGuard(middleware) {
			covers = append(covers, askMiddleware(middleware))
		}
	}
	if codeOf(endpoint) == serveCode {
		covers = append(covers, ask(endpoint))
	}
	return covers
}
