package idemchi

import (
	"cmp"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// Table returns a middleware that guards the routes of a table, wherever they are
// declared, and passes the others. Mount it with Use, Group, Route or With, inside
// of what authenticates and of what changes the path or the method of a request
// (middleware.StripSlashes, middleware.GetHead). It panics with everything that
// this engine refuses in the table.
//
// A row names the whole pattern, with the prefixes that Route and Mount give it;
// a slash at its end does not count, as chi's own RoutePattern has none. The
// middleware asks the router which route a request is going to take, which costs
// one more search of its tree. It sees through Mount and Route, and not through
// handlers that are not chi's: Audit reports the rows that are lost there. A
// request that comes by no chi router makes it panic.
func (g *Guard) Table(table *policy.Table) func(http.Handler) http.Handler {
	rows := declared.Rows(g.engine, table, canonical)
	methods := make(map[string]bool)
	for row := range rows {
		methods[row.Method] = true
	}
	var routers sync.Map // of chi.Routes to its subrouters
	routeOf := func(r *http.Request) *core.Route {
		routing := chi.RouteContext(r.Context())
		if routing == nil || routing.Routes == nil {
			panic("idemchi: a Table guards no routes outside of a chi router: mount it with the router's Use")
		}
		method := cmp.Or(routing.RouteMethod, r.Method)
		if !methods[method] {
			return nil
		}
		known, _ := routers.Load(routing.Routes)
		if known == nil {
			known, _ = routers.LoadOrStore(routing.Routes, subroutersOf(routing.Routes))
		}
		for _, pattern := range known.(subrouters).candidates(routing, method, r) { //nolint:forcetypeassert // nothing else is stored
			if route := rows[declared.Key{Method: method, Pattern: pattern}]; route != nil {
				r.Pattern = pattern
				return route
			}
		}
		return nil
	}
	return (&guarding{declared.Cover{Engine: g.engine, Table: table, Rows: rows}, routeOf}).around
}

// canonical is a pattern as chi.Context.RoutePattern spells it.
func canonical(pattern string) string {
	for strings.Contains(pattern, "/*/") {
		pattern = strings.ReplaceAll(pattern, "/*/", "/")
	}
	return cmp.Or(strings.TrimSuffix(pattern, "/"), "/")
}

// subrouters are the routers below one, by the prefix that they are mounted at.
type subrouters map[string]chi.Routes

func subroutersOf(root chi.Routes) subrouters {
	all := subrouters{"": root}
	all.add("", root)
	return all
}

func (s subrouters) add(prefix string, routes chi.Routes) {
	for _, route := range routes.Routes() {
		if route.SubRoutes == nil {
			continue
		}
		at := prefixOf(prefix + route.Pattern)
		if s[at] == nil { // or it is mounted at its router's own path, which finds it
			s[at] = route.SubRoutes
		}
		s.add(at, route.SubRoutes)
	}
}

// prefixOf is the prefix of a mount's pattern: "/v1/*" is mounted at "/v1".
func prefixOf(pattern string) string {
	return strings.TrimSuffix(strings.TrimSuffix(pattern, "*"), "/")
}

// candidates returns the pattern of the route that a request is going to take:
// two of them where chi does not tell a mount from what is mounted there.
func (s subrouters) candidates(routing *chi.Context, method string, r *http.Request) []string {
	prefix := prefixOf(canonical(strings.Join(routing.RoutePatterns, "")))
	router := s[prefix]
	if router == nil { // With and Group: the route is found already
		return []string{routing.RoutePattern()}
	}
	searched := cmp.Or(routing.RoutePath, r.URL.RawPath, r.URL.Path, "/")
	found := router.Find(chi.NewRouteContext(), method, searched)
	if found == "" { // unless what comes later cleans the path, nothing is found
		found = router.Find(chi.NewRouteContext(), method, path.Clean(searched))
	}
	if found == "" {
		return nil
	}
	found = canonical(prefix + found)
	if mounted := s[found]; mounted != nil { // its own path is its "/"
		return []string{found, canonical(found + mounted.Find(chi.NewRouteContext(), method, "/"))}
	}
	return []string{found}
}
