package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// route is a guarded declaration with its path template.
type route struct {
	declaration policy.Declaration
	template    string
	parameters  []pathParameter
	written     []written // by the ProblemWriter, for each code
}

// record sets the responses that the program's writer writes for each route. The errors
// name the code.
func record(s *settings, routes []route) error {
	if s.write == nil {
		return nil
	}
	var faults []error
	for i := range routes {
		of := &routes[i]
		if of.declaration.Policy.ObserveOnly {
			continue
		}
		for _, e := range responsesOf(&of.declaration.Policy, s.limits) {
			for _, c := range e.codes {
				w, err := write(s.write, of.request(), s.problem(c, of.declaration.Policy.KeyField))
				if err != nil {
					faults = appendNew(faults, fmt.Errorf("openapi: the ProblemWriter, given %s, %w", c.name, err))
				}
				w.by, w.code = e, c
				of.written = append(of.written, w)
			}
		}
	}
	return errors.Join(faults...)
}

// request is a request for the route, as far as its declaration tells.
func (r *route) request() *http.Request {
	return &http.Request{
		Method: r.declaration.Method, URL: &url.URL{Path: r.template}, RequestURI: r.template, Pattern: r.declaration.Route(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Body: http.NoBody,
	}
}

// refsBeside returns the $refs to responses in the document's other operations.
func refsBeside(document gjson.Result, routes []route) map[string]bool {
	ours := make(map[string]bool)
	for _, of := range routes {
		ours[strings.ToLower(of.declaration.Method)+" "+shapeOf(of.template)] = true
	}
	refs := make(map[string]bool)
	document.Get("paths").ForEach(func(path, item gjson.Result) bool {
		item.ForEach(func(method, operation gjson.Result) bool {
			if ours[method.Str+" "+shapeOf(path.Str)] {
				return true
			}
			operation.Get("responses").ForEach(func(_, response gjson.Result) bool {
				refs[response.Get("$ref").Str] = true
				return true
			})
			return true
		})
		return true
	})
	return refs
}

// methods are the methods of an OpenAPI 3.1 path item that a policy can guard.
var methods = []string{"POST", "PATCH", "PUT", "DELETE"}

func routesOf(declarations []policy.Declaration) ([]route, error) {
	var all []error
	var routes []route
	first := make(map[string]string)
	for _, d := range declarations {
		if !d.Guarded || d.Method == storage.MethodTool {
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
