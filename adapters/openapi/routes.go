package openapi

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/oncekey/oncekey/policy"
)

// route is a guarded declaration with its path template.
type route struct {
	declaration policy.Declaration
	template    string
	parameters  []pathParameter
}

// methods are the methods of an OpenAPI 3.1 path item that a policy can guard.
var methods = []string{"POST", "PATCH", "PUT", "DELETE"}

func routesOf(declarations []policy.Declaration) ([]route, error) {
	var all []error
	var routes []route
	first := make(map[string]string)
	for _, d := range declarations {
		if !d.Guarded {
			continue
		}
		if !slices.Contains(methods, d.Method) {
			all = append(all, fmt.Errorf("openapi: %s: %s: OpenAPI describes no method %s", d.Source, d.Route(), d.Method))
			continue
		}
		if !utf8.ValidString(d.Pattern) {
			all = append(all, fmt.Errorf("openapi: %s: %q: the pattern is not UTF-8", d.Source, d.Route()))
			continue
		}
		if !isClosed(d.Pattern) {
			all = append(all, fmt.Errorf("openapi: %s: %s: the pattern has a brace that is not closed", d.Source, d.Route()))
			continue
		}
		r := route{declaration: d}
		r.template, r.parameters = templateOf(d.Pattern)
		key := d.Method + " " + shapeOf(r.template)
		if other, taken := first[key]; taken {
			all = append(all, fmt.Errorf("openapi: %s: %s: in OpenAPI the path equals %s", d.Source, d.Route(), other))
			continue
		}
		first[key] = d.Route()
		routes = append(routes, r)
	}
	return routes, errors.Join(all...)
}
