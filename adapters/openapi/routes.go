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
	path        string // from the root of the server
	template    string // in the document: path without the base path of a server
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
		Method: r.declaration.Method, URL: &url.URL{Path: r.path}, RequestURI: r.path, Pattern: r.declaration.Route(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Body: http.NoBody,
	}
}

// methods are the methods of an OpenAPI 3.1 path item that a policy can guard.
var methods = []string{"POST", "PATCH", "PUT", "DELETE"}

// paths are the parts of a document that tell where a route is.
type paths struct {
	bases  []string        // of the servers, such as /v1
	shapes map[string]bool // of the templates
}

// pathsOf reads a document. A variable of a server has its default value.
func pathsOf(document gjson.Result) paths {
	found := paths{shapes: make(map[string]bool)}
	document.Get("servers").ForEach(func(_, server gjson.Result) bool {
		text := server.Get("url").Str
		server.Get("variables").ForEach(func(name, variable gjson.Result) bool {
			text = strings.ReplaceAll(text, "{"+name.Str+"}", variable.Get("default").Str)
			return true
		})
		if parsed, err := url.Parse(text); err == nil {
			found.bases = append(found.bases, strings.TrimSuffix(parsed.Path, "/"))
		}
		return true
	})
	document.Get("paths").ForEach(func(template, _ gjson.Result) bool {
		found.shapes[shapeOf(template.Str)] = true
		return true
	})
	return found
}

// templateFor returns the template of a path in the document: one that is there, or else that
// of the first server with the beginning of the path.
func (p paths) templateFor(path string) string {
	var templates []string
	for _, base := range p.bases {
		if rest, has := strings.CutPrefix(path, base); has && strings.HasPrefix(rest, "/") {
			templates = append(templates, rest)
		}
	}
	templates = append(templates, path)
	at := slices.IndexFunc(templates, func(template string) bool { return p.shapes[shapeOf(template)] })
	return templates[max(at, 0)]
}

func routesOf(declarations []policy.Declaration, in paths) ([]route, error) {
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
		r.path, r.parameters = templateOf(d.Pattern)
		r.template = in.templateFor(r.path)
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
