package core

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

// Route is a policy compiled for one route. It is immutable and safe for
// concurrent use.
type Route struct {
	policy    policy.Policy
	exclusion *fingerprint.Exclusion
	keyField  *fingerprint.Member // nil: the header holds the key
	headers   []string            // IncludeHeaders, canonical and sorted

	redactions wire.Redactions
	// writeProblem takes the place of the engine's problem.Writer, unless nil.
	writeProblem problem.Writer
	observes     bool     // set by the policy or by WithObserveOnly
	place        string   // file and line of the declaration
	unguarded    onceFlag // set when serveUnguarded has reported the route
	endpoints    endpoints
}

// Guards reports whether the route's policy guards requests of this method.
func (r *Route) Guards(method string) bool { return r.policy.Guards(method) }

// compile compiles the policy's fields. The error names each field at fault.
func (r *Route) compile() error {
	var exclude, include, key, redact error
	r.exclusion, exclude = fingerprint.Exclude(r.policy.ExcludeFields...)
	if len(r.policy.IncludeFields) > 0 {
		r.exclusion, include = fingerprint.Only(r.policy.IncludeFields...)
	}
	if r.policy.KeyField != "" {
		r.keyField, key = fingerprint.ParseMember(r.policy.KeyField)
	}
	r.redactions, redact = wire.RedactionsOf(r.policy.RedactFields)
	return errors.Join(inField("ExcludeFields", exclude), inField("IncludeFields", include), inField("KeyField", key), inField("RedactFields", redact))
}

func inField(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("policy: %s: %w", name, err)
}

type onceFlag struct{ atomic.Bool }

// first reports true once.
func (f *onceFlag) first() bool { return !f.Load() && f.CompareAndSwap(false, true) }

// DeclaredAt names the file and the line of the program that declared the policy.
func (r *Route) DeclaredAt() string { return r.place }

// errTwoPolicies returns an error that names both policies of a request.
func errTwoPolicies(outer, inner *Route) error {
	return fmt.Errorf("oncekey: two policies guard this request, one declared at %s and inside of it one declared at %s: "+
		"keep one of them, or mount them where the router shows the inner one to the outer (idemchi, idemgin, or a http.ServeMux in Engine.Handler)",
		outer.place, inner.place)
}

// includedHeaders returns the fields of the policy's IncludeHeaders.
func (r *Route) includedHeaders(h http.Header) (fields []fingerprint.HeaderField) {
	for _, name := range r.headers {
		for _, value := range h[name] {
			fields = append(fields, fingerprint.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// canonicalNames returns header names sorted, so that their order in a policy does not
// count, and each once.
func canonicalNames(names []string) []string {
	canonical := make([]string, 0, len(names))
	for _, name := range names {
		canonical = append(canonical, http.CanonicalHeaderKey(name))
	}
	slices.Sort(canonical)
	return slices.Compact(canonical)
}

// Endpoint is a method and a route's pattern, such as POST and /payments. For a call of Do
// the method is storage.MethodCall, and the pattern the function's name. For a tool of an
// MCP server they are storage.MethodTool and the tool's name.
type Endpoint struct{ Method, Pattern string }

// String returns "POST /payments". Patterns of net/http that name the method stay as they
// are.
func (e Endpoint) String() string {
	if strings.HasPrefix(e.Pattern, e.Method+" ") {
		return e.Pattern
	}
	return e.Method + " " + e.Pattern
}

// declaredRoutes are the routes of an engine.
type declaredRoutes struct {
	mu  sync.Mutex
	all []*Route
}

// maxRoutes bounds the routes of an engine, and the endpoints of a route.
const maxRoutes = 1000

func (d *declaredRoutes) add(r *Route) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) < maxRoutes {
		d.all = append(d.all, r)
	}
}

// Policy returns the route's policy.
func (r *Route) Policy() policy.Policy { return r.policy }

// Observes reports whether the route only observes, by its policy or by the engine's
// WithObserveOnly.
func (r *Route) Observes() bool { return r.observes }

// Endpoints returns the endpoints that the route serves: those that an adapter has declared
// (see Declare), and those of requests and calls that this process has seen. Several
// endpoints share one route where one middleware guards them.
func (r *Route) Endpoints() []Endpoint {
	if seen := r.endpoints.Load(); seen != nil {
		return slices.Clone(*seen)
	}
	return nil
}

// Declare tells the route that it serves an endpoint. Adapters that know the router's
// pattern call Declare, so that Endpoints is complete before the first request.
func (r *Route) Declare(e Endpoint) {
	for !r.serves(e) {
		seen := r.endpoints.Load()
		var more []Endpoint
		if seen != nil {
			more = *seen
		}
		more = append(slices.Clone(more), e)
		if len(more) > maxRoutes || r.endpoints.CompareAndSwap(seen, &more) {
			return
		}
	}
}

func (r *Route) serves(e Endpoint) bool {
	seen := r.endpoints.Load()
	return seen != nil && slices.Contains(*seen, e)
}

// served records the endpoint of an event. It is called for each request.
func (r *Route) served(method, pattern string) {
	endpoint := Endpoint{method, pattern}
	if pattern != "" && !r.serves(endpoint) && (r.Guards(method) || method == storage.MethodCall) {
		r.Declare(endpoint)
	}
}

type endpoints = atomic.Pointer[[]Endpoint]

// routeOf returns the route of a pattern that records have. If several serve it, or none is known to, the
// result keeps records for the longest times of these or of all, without the redacted fields of any.
func routeOf(all []*Route, defaults *Route, pattern string) *Route {
	serving := slices.DeleteFunc(slices.Clone(all), func(r *Route) bool {
		return r.observes || !slices.ContainsFunc(r.Endpoints(), func(e Endpoint) bool { return e.Pattern == pattern })
	})
	if len(serving) == 0 {
		serving = append([]*Route{defaults}, all...)
	}
	merged := &Route{policy: serving[0].policy}
	for _, route := range serving {
		merged.policy.TTL, merged.policy.Remember = max(merged.policy.TTL, route.policy.TTL), max(merged.policy.Remember, route.policy.Remember)
		merged.redactions = append(merged.redactions, route.redactions...)
	}
	return merged
}
