// Package routes knows how chi finds the route of a request.
package routes

import (
	"cmp"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/go-chi/chi/v5"
)

// MethodOf returns the method by which chi finds the route.
func MethodOf(routing *chi.Context, r *http.Request) string {
	return cmp.Or(routing.RouteMethod, r.Method)
}

// IsFound reports whether chi has found the route, and not just a mount.
func IsFound(routing *chi.Context) bool {
	n := len(routing.RoutePatterns)
	return n > 0 && !strings.HasSuffix(routing.RoutePatterns[n-1], "*")
}

// Find returns the pattern of a path, or "". Middleware inside the guard may clean the
// path.
func Find(router chi.Routes, method, searched string) string {
	if found := router.Find(chi.NewRouteContext(), method, searched); found != "" {
		return found
	}
	return router.Find(chi.NewRouteContext(), method, path.Clean(searched))
}

// PathBelow is the path that the next router will search. In the middleware of a
// mount (With, Group) chi has not yet removed the prefix.
func PathBelow(routing *chi.Context, r *http.Request) string {
	if IsFound(routing) {
		return "/"
	}
	if n := len(routing.URLParams.Keys); n > 0 && routing.URLParams.Keys[n-1] == "*" && routing.URLParams.Values[n-1] != "" {
		return "/" + routing.URLParams.Values[n-1]
	}
	return cmp.Or(routing.RoutePath, r.URL.RawPath, r.URL.Path, "/")
}

// Prefix is the prefix of the router that has the request.
func Prefix(routing *chi.Context) string {
	return PrefixOf(Canonical(strings.Join(routing.RoutePatterns, "")))
}

// PrefixOf is the prefix of a mount's pattern: "/v1" for "/v1/*".
func PrefixOf(pattern string) string {
	return strings.TrimSuffix(strings.TrimSuffix(pattern, "*"), "/")
}

// Canonical spells a pattern like chi.Context.RoutePattern.
func Canonical(pattern string) string {
	for strings.Contains(pattern, "/*/") {
		pattern = strings.ReplaceAll(pattern, "/*/", "/")
	}
	return cmp.Or(strings.TrimSuffix(pattern, "/"), "/")
}

// MuxOf returns the router whose handlers can be replaced, or nil. A program may embed
// a router in a type of its own. A router that With has made would put its middleware
// around the handler twice.
func MuxOf(routes chi.Routes) *chi.Mux {
	mux, _ := routes.(*chi.Mux)
	if own := reflect.Indirect(reflect.ValueOf(routes)); mux == nil && own.Kind() == reflect.Struct {
		for _, name := range []string{"Mux", "Router"} {
			if field := own.FieldByName(name); mux == nil && field.IsValid() && field.CanInterface() {
				mux, _ = reflect.TypeAssert[*chi.Mux](field)
			}
		}
	}
	if mux == nil {
		return nil
	}
	if inline := reflect.ValueOf(mux).Elem().FieldByName("inline"); inline.Kind() != reflect.Bool || inline.Bool() {
		return nil
	}
	return mux
}
