package routes

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
)

// Rows find the row of a table for a request. After all calls of Add, they are safe for
// concurrent use.
type Rows struct {
	methods  map[string][]string // by pattern
	patterns map[string][]string // by method, the most specific first
	known    sync.Map            // from the first *gin.HandlerFunc of a route to its method
}

// Add adds a row.
func (r *Rows) Add(method, pattern string) {
	if r.methods == nil {
		r.methods, r.patterns = make(map[string][]string), make(map[string][]string)
	}
	r.methods[pattern] = append(r.methods[pattern], method)
	r.patterns[method] = append(r.patterns[method], pattern)
	slices.SortFunc(r.patterns[method], func(a, b string) int { return strings.Compare(ranked.Replace(a), ranked.Replace(b)) })
}

// ranked sorts a fixed segment before a parameter, and a parameter before the rest of a path.
var ranked = strings.NewReplacer("/:", "/\xfe", "/*", "/\xff")

// Of returns the method and the pattern of the row that a request may have: those of the
// route that gin has found, whatever middleware has written to the request since. A handler
// for unknown paths, or for all paths below a prefix, may lead to another router, whose
// routes gin does not know: there Of returns the row whose pattern matches the path.
func (r *Rows) Of(c *gin.Context) (method, pattern string) {
	method, pattern = c.Request.Method, c.FullPath()
	switch methods := r.methods[pattern]; {
	case slices.Contains(methods, method):
		return method, pattern
	case len(methods) > 0:
		return r.methodOf(c), pattern
	case pattern == "" || strings.Contains(pattern, "/*"):
		return method, r.find(method, c.Request.URL.Path)
	default:
		return method, pattern
	}
}

// methodOf returns the method of the route that gin has found, or the request's method if
// this version of gin is unknown.
func (r *Rows) methodOf(c *gin.Context) string {
	if !fieldsKnown {
		return c.Request.Method
	}
	handlers, _ := chainOf(c)
	if len(handlers) == 0 {
		return c.Request.Method
	}
	if method, found := r.known.Load(&handlers[0]); found {
		return method.(string) //nolint:forcetypeassert // the map holds only this type
	}
	if engine, _ := unexported[*gin.Engine](reflect.ValueOf(c).Elem(), "engine"); engine != nil {
		chains, _ := Chains(engine)
		for _, chain := range chains {
			r.known.Store(&chain.Handlers[0], chain.Method)
		}
	}
	method, _ := r.known.LoadOrStore(&handlers[0], c.Request.Method)
	return method.(string) //nolint:forcetypeassert // the map holds only this type
}

// find returns the most specific pattern that matches the path, or "".
func (r *Rows) find(method, path string) string {
	for _, pattern := range r.patterns[method] {
		if matches(pattern, path) {
			return pattern
		}
	}
	return ""
}

// matches reports whether a pattern of gin matches a path. As in gin, a parameter at the
// end takes no empty segment.
func matches(pattern, path string) bool {
	for {
		want, patternLeft, morePattern := strings.Cut(pattern, "/")
		got, pathLeft, morePath := strings.Cut(path, "/")
		switch {
		case strings.HasPrefix(want, "*"):
			return true
		case strings.HasPrefix(want, ":"):
			if got == "" && !morePath {
				return false
			}
		case want != got:
			return false
		}
		if !morePattern || !morePath {
			return morePattern == morePath
		}
		pattern, path = patternLeft, pathLeft
	}
}

// Join puts a prefix before a pattern as gin's groups do.
func Join(prefix, pattern string) string {
	joined := path.Join(prefix, pattern)
	if strings.HasSuffix(pattern, "/") && joined != "/" {
		joined += "/"
	}
	return joined
}
