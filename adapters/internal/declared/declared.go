// Package declared is shared by the adapters. It compiles the policies of annotated
// structs and policy tables for an engine, and compares the declared routes with a
// router's routes.
package declared

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/callers"
	"github.com/oncekey/oncekey/policy"
)

// Key names a route, in the router's own syntax.
type Key struct{ Method, Pattern string }

func (k Key) String() string { return k.Method + " " + k.Pattern }

// Field is one field of an annotated struct. Route is nil for an unguarded route.
type Field[H any] struct {
	policy.Annotated[H]
	Route *core.Route
}

// Place returns the line of the program that calls the caller of Place: the declaration of
// a policy, for a function that programs call.
var Place = callers.Place

// MustRoute compiles a policy that the program declares at the place. It panics when the
// policy is invalid, as routers do for an invalid pattern.
func MustRoute(engine *core.Engine, place string, opts []policy.Option) *core.Route {
	route, err := engine.RouteWith(core.Declaration{Place: place}, opts...)
	if err != nil {
		panic(err)
	}
	return route
}

// Fields compiles an annotated struct, which the program declares at the place. It returns
// all valid fields beside all faults. canonical spells a field's pattern as events do.
func Fields[H any](engine *core.Engine, place string, api any, also []policy.Addition, canonical func(pattern string) string) ([]Field[H], error) {
	annotated, err := policy.Annotations[H](api, also...)
	all := []error{err}
	fields := make([]Field[H], 0, len(annotated))
	for _, a := range annotated {
		route, err := compile(engine, place, &a.Declaration, canonical(a.Declaration.Pattern))
		all = append(all, err)
		fields = append(fields, Field[H]{a, route})
	}
	return fields, errors.Join(all...)
}

// Tables are the compiled tables of a guard. A table on two routers, of which one leads to
// the other, is then one policy, and not two. The zero value is empty.
type Tables struct{ known sync.Map } // from *policy.Table to its rows

// Rows compiles a table once, which the program declares at the place. It panics with all
// faults, as routers do for an invalid pattern.
func (t *Tables) Rows(engine *core.Engine, place string, table *policy.Table, canonical func(pattern string) string) map[Key]*core.Route {
	found, done := t.known.Load(table)
	if !done {
		found, _ = t.known.LoadOrStore(table, compileRows(engine, place, table, canonical))
	}
	return found.(map[Key]*core.Route) //nolint:forcetypeassert // the map holds only this type
}

func compileRows(engine *core.Engine, place string, table *policy.Table, canonical func(pattern string) string) map[Key]*core.Route {
	var all []error
	rows := make(map[Key]*core.Route)
	for _, d := range table.Declarations() {
		if d.Method == storage.MethodTool { // the row of adapters/mcp
			continue
		}
		key := Key{d.Method, canonical(d.Pattern)}
		route, err := compile(engine, place, &d, key.Pattern)
		if rows[key] != nil {
			err = fmt.Errorf("policy: %s: %s is the route of another row", d.Source, d.Route())
		}
		rows[key] = route
		all = append(all, err)
	}
	if err := errors.Join(all...); err != nil {
		panic(err)
	}
	return rows
}

// compile returns a nil route for a declaration without a policy. Events have the pattern.
func compile(engine *core.Engine, place string, d *policy.Declaration, pattern string) (*core.Route, error) {
	if !d.Guarded {
		return nil, nil //nolint:nilnil // the declaration has no policy
	}
	route, err := engine.RouteWith(core.Declaration{Place: place}, policy.From(d.Policy))
	if err != nil {
		return nil, fmt.Errorf("policy: %s: %s: %w", d.Source, d.Route(), err)
	}
	route.Declare(core.Endpoint{Method: d.Method, Pattern: pattern})
	return route, nil
}

// Try calls a router's function and turns a panic into an error.
func Try(d *policy.Declaration, declare func()) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("policy: %s: the router refuses %s: %v", d.Source, d.Route(), reason)
		}
	}()
	declare()
	return nil
}

// Shape is a chi pattern without the names of its parameters. Two patterns of one
// shape are the same route.
func Shape(pattern string) string {
	var shape strings.Builder
	depth, naming := 0, false
	for _, c := range pattern {
		switch c {
		case '{':
			naming = naming || depth == 0
			depth++
		case '}':
			depth--
			naming = false
		case ':':
			naming = false
		}
		if !naming {
			shape.WriteRune(c)
		}
	}
	return shape.String()
}
