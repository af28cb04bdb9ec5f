// Package openapi describes guarded routes for an OpenAPI document: the
// Idempotency-Key header, the header that marks a replay, and the problems that
// the engine answers with.
//
//	declared, err := policy.Declarations(API{})        // or table.Declarations()
//	err = openapi.Merge(doc, declared)                 // into a document of yours
//	doc, err := openapi.Document(declared)             // or a fragment by itself
//	text, err := doc.MarshalJSON()
//
// Document makes OpenAPI 3.1; what Merge adds is the same in 3.0. Only what a
// route's policy can cause is described: where no key is required there is no
// key_missing, and a policy that only observes answers nothing. Problems are
// described as the engine writes them unless core.WithProblemWriter replaces that.
//
// Patterns become path templates: chi's {id} and {id:[0-9]+}, gin's :id and *rest
// where a segment begins with it, chi's final *, whose parameter is called
// wildcard. A colon in the middle of a segment stays as it is.
//
// The package is the only one that links kin-openapi.
package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncekey/oncekey/policy"
)

// Option changes what is described.
type Option func(*settings)

type settings struct{ replayHeader string }

// ReplayHeader names the header that marks a replayed answer, as
// core.WithReplayHeader does for the engine. Default X-Idempotent-Replay.
func ReplayHeader(name string) Option {
	return func(s *settings) { s.replayHeader = http.CanonicalHeaderKey(name) }
}

// Document returns an OpenAPI 3.1 document with the guarded routes among the
// declarations and nothing else. The errors are Merge's.
func Document(declarations []policy.Declaration, opts ...Option) (*openapi3.T, error) {
	doc := &openapi3.T{
		OpenAPI: "3.1.0",
		Info:    &openapi3.Info{Title: "Idempotent routes", Version: "1"},
		Paths:   openapi3.NewPaths(),
	}
	if err := Merge(doc, declarations, opts...); err != nil {
		return nil, err
	}
	return doc, nil
}

// Merge adds to doc what the guarded routes among the declarations do. What is
// there stays as it is: a parameter, a response, a header, a media type is added
// where there is none of its name. A path that is there under other parameter
// names is the same path. A response that is a $ref is left alone, because other
// routes may share it.
//
// When anything is wrong it changes nothing, and returns everything that is wrong:
// a method that OpenAPI does not know, two routes that it cannot tell apart (chi
// tells them by a regular expression), a component of ours under whose name doc has
// another, a nil document or option, a null in an operation that it would describe.
func Merge(doc *openapi3.T, declarations []policy.Declaration, opts ...Option) error {
	if doc == nil {
		return errors.New("openapi: the document is nil: give one, or call Document")
	}
	described, optErr := settingsOf(opts)
	routes, err := routesOf(declarations)
	components := componentsOf()
	if err := errors.Join(optErr, err, conflicts(doc.Components, components), nulls(doc, routes)); err != nil {
		return err
	}
	if len(routes) == 0 {
		return nil
	}
	addComponents(doc, components)
	if doc.Paths == nil {
		doc.Paths = openapi3.NewPaths()
	}
	byShape := make(map[string]string)
	for _, template := range doc.Paths.Keys() {
		byShape[shapeOf(template)] = template
	}
	for _, route := range routes {
		template, known := byShape[shapeOf(route.template)]
		if !known {
			template = route.template
			byShape[shapeOf(template)] = template
			doc.Paths.Set(template, &openapi3.PathItem{})
		}
		item := doc.Paths.Value(template)
		operation := item.GetOperation(route.declaration.Method)
		if operation == nil {
			operation = &openapi3.Operation{Responses: openapi3.NewResponsesWithCapacity(0)}
			operation.Parameters = route.pathParameters(template, item.Parameters)
			item.SetOperation(route.declaration.Method, operation)
		}
		described.describe(operation, item.Parameters, &route.declaration.Policy, components)
	}
	return nil
}

// settingsOf applies the options to the defaults.
func settingsOf(opts []Option) (settings, error) {
	described := settings{replayHeader: "X-Idempotent-Replay"}
	var all []error
	for i, opt := range opts {
		if opt == nil {
			all = append(all, fmt.Errorf("openapi: option %d is nil: leave it out", i+1))
			continue
		}
		opt(&described)
	}
	if !policy.IsToken(described.replayHeader) {
		all = append(all, fmt.Errorf("openapi: ReplayHeader is %q: it must be a header name", described.replayHeader))
	}
	return described, errors.Join(all...)
}

// route is a guarded declaration with its path template.
type route struct {
	declaration policy.Declaration
	template    string
	parameters  []*openapi3.Parameter
}

// methods are those of an OpenAPI 3.1 path item that a policy can guard.
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
		if !isClosed(d.Pattern) {
			all = append(all, fmt.Errorf("openapi: %s: %s: the pattern has a brace that is not closed", d.Source, d.Route()))
			continue
		}
		r := route{declaration: d}
		r.template, r.parameters = templateOf(d.Pattern)
		key := d.Method + " " + shapeOf(r.template)
		if other, taken := first[key]; taken {
			all = append(all, fmt.Errorf("openapi: %s: %s: OpenAPI cannot tell it from %s", d.Source, d.Route(), other))
			continue
		}
		first[key] = d.Route()
		routes = append(routes, r)
	}
	return routes, errors.Join(all...)
}

// conflicts finds components of the document that have our names and are others.
func conflicts(has *openapi3.Components, ours *openapi3.Components) error {
	if has == nil {
		return nil
	}
	return errors.Join(
		differing("schemas", has.Schemas, ours.Schemas),
		differing("parameters", has.Parameters, ours.Parameters),
		differing("headers", has.Headers, ours.Headers),
	)
}

func differing[T any](kind string, has, ours map[string]T) error {
	var all []error
	for name, component := range ours {
		if other, taken := has[name]; taken && !equalJSON(other, component) {
			all = append(all, fmt.Errorf("openapi: the document has another components.%s.%s: rename it", kind, name))
		}
	}
	return errors.Join(all...)
}

func equalJSON(a, b any) bool {
	var values [2]any
	for i, value := range []any{a, b} {
		text, err := json.Marshal(value)
		if err != nil || json.Unmarshal(text, &values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

func addComponents(doc *openapi3.T, ours *openapi3.Components) {
	if doc.Components == nil {
		doc.Components = &openapi3.Components{}
	}
	doc.Components.Schemas = with(doc.Components.Schemas, ours.Schemas)
	doc.Components.Parameters = with(doc.Components.Parameters, ours.Parameters)
	doc.Components.Headers = with(doc.Components.Headers, ours.Headers)
}

// with adds what is missing.
func with[M ~map[string]T, T any](has, more M) M {
	if has == nil {
		has = make(M)
	}
	for name, value := range more {
		if _, there := has[name]; !there {
			has[name] = value
		}
	}
	return has
}
