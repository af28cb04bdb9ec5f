package core

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Endpoint is a method and a route's pattern, such as POST and /payments. For a call of Do
// the method is storage.MethodCall, and the pattern the function's name.
type Endpoint struct{ Method, Pattern string }

// String returns "POST /payments". Patterns of net/http that name the method stay as they
// are.
func (e Endpoint) String() string {
	if strings.HasPrefix(e.Pattern, e.Method+" ") {
		return e.Pattern
	}
	return e.Method + " " + e.Pattern
}

// Routes returns the routes of this engine, in the order of their declaration. At most
// 1,000 are remembered.
func (e *Engine) Routes() []*Route {
	e.declared.mu.Lock()
	defer e.declared.mu.Unlock()
	return slices.Clone(e.declared.all)
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
