package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/callers"
	"github.com/oncekey/oncekey/policy"
)

// Engine runs handlers once for each key. One engine serves all routes of a
// program. It is safe for concurrent use.
type Engine struct {
	ledger      *ledger.Ledger
	scope       Scope
	service     string
	observer    event.Observer
	responder   responder
	keyHeaders  []string                     // canonical names, at least one
	trace       func(context.Context) string // nil: none
	instance    string
	holder      string // instance, as records have it
	observeOnly bool
	explain     bool
	defaults    *Route // for a Call without a policy
	declared    declaredRoutes
	inspected   event.Subject // of events about changes by hand
	waiters     waiters
}

// Option changes an Engine's defaults.
type Option func(*Engine) error

// New returns an engine that keeps its records in store. The scope has no default,
// so that every program chooses whose keys are separate. An engine has a timer: for
// a test in a testing/synctest bubble, call New inside the bubble.
func New(store storage.Store, scope Scope, opts ...Option) (*Engine, error) {
	if store == nil {
		return nil, errors.New("oncekey: the store is nil: give one, such as memstore.New()")
	}
	if scope == nil {
		return nil, errors.New("oncekey: the scope is nil: give core.ScopeBy(user), or core.SharedScope")
	}
	hostname, _ := os.Hostname() // events work without an instance
	e := &Engine{
		ledger: ledger.New(store), scope: scope, observer: event.Log(nil),
		responder:  responder{write: problem.Write, keyHeader: KeyHeader, replayHeader: "X-Idempotent-Replay"},
		keyHeaders: []string{KeyHeader}, instance: hostname,
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("oncekey: option %d of New is nil: leave it out", i+1)
		}
		if err := opt(e); err != nil {
			return nil, err
		}
	}
	if e.responder.expiryHeader == e.responder.replayHeader {
		return nil, fmt.Errorf("oncekey: WithExpiryHeader is given %q, which marks replays: give another name", e.responder.expiryHeader)
	}
	e.holder = ledger.Shortened(e.instance, ledger.MaxOriginText)
	e.observer = guardedObserver{e.observer}
	if e.responder.custom {
		e.responder.write = guardedWriter(e.responder.write, e.observer)
	}
	e.inspected = event.About("", "", "", "", e.instance)
	e.defaults = e.MustRoute() // the default policy is valid
	e.declared.all = nil
	return e, nil
}

// Shutdown refuses new keys, and waits for running handlers, for responses that are not
// stored yet, and for claims that are on their way to the store. Call Shutdown after
// http.Server.Shutdown. When ctx ends first, Shutdown stops storing responses, and
// returns ErrShutdown wrapped with the context's error and the number of unfinished
// claims, runs and background jobs.
func (e *Engine) Shutdown(ctx context.Context) error {
	select {
	case <-e.ledger.Close():
		return nil
	case <-ctx.Done():
		unfinished := e.ledger.Abort()
		if unfinished == 0 { // select takes either channel where both are ready
			return nil
		}
		return fmt.Errorf("%w (%d left): %w", ErrShutdown, unfinished, context.Cause(ctx))
	}
}

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
	unguarded    onceFlag // set when reportUnguarded has reported the route
	endpoints    endpoints
}

// Guards reports whether the route's policy guards requests of this method.
func (r *Route) Guards(method string) bool { return r.policy.Guards(method) }

// Route compiles a policy for this engine. The error names every field at fault.
func (e *Engine) Route(opts ...policy.Option) (*Route, error) {
	return e.RouteWith(Declaration{Place: callers.Place()}, opts...)
}

// Declaration is what an adapter adds to a policy.
type Declaration struct {
	// Place names the file and the line of the program that declare the policy, for errors,
	// events and operators. Empty means the caller of RouteWith.
	Place string
	// WriteProblem writes the problems of the route, in place of the engine's problem.Writer,
	// for another protocol than HTTP. A problem that is stored as the response of a run is
	// written by it too. Nil means the engine's writer. WriteProblem must not panic, and must
	// be safe for concurrent use.
	WriteProblem problem.Writer
}

// RouteWith is Route for adapters. A program calls the adapter, which names the program's
// line as the Place of the declaration.
func (e *Engine) RouteWith(d Declaration, opts ...policy.Option) (*Route, error) {
	if d.Place == "" {
		d.Place = callers.Place()
	}
	if e == nil {
		return nil, errors.New("oncekey: the Engine is nil: make it with core.New")
	}
	if i := slices.IndexFunc(opts, func(opt policy.Option) bool { return opt == nil }); i >= 0 {
		return nil, fmt.Errorf("oncekey: option %d of the route is nil: leave it out", i+1)
	}
	declared, err := policy.New(opts...)
	if err != nil {
		return nil, err
	}
	if declared.Transactional && !storage.Transacts(e.ledger.Store()) {
		return nil, &policy.FieldError{
			Field: "Transactional", Value: true,
			Want: fmt.Sprintf("false, because %T has no transactions", e.ledger.Store()),
		}
	}
	observes := declared.Observe || e.observeOnly
	if declared.Transactional && observes {
		return nil, &policy.FieldError{
			Field: "Transactional", Value: true,
			Want: "false where the route or the engine only observes, because the handler then runs in no transaction",
		}
	}
	route := &Route{
		policy: declared, observes: observes, place: d.Place, headers: canonicalNames(declared.IncludeHeaders),
		writeProblem: d.WriteProblem,
	}
	if err := route.compile(); err != nil {
		return nil, err
	}
	e.declared.add(route)
	return route, nil
}

// compile compiles the policy's fields.
func (r *Route) compile() (err error) {
	if r.exclusion, err = fingerprint.Exclude(r.policy.ExcludeFields...); err != nil {
		return fmt.Errorf("policy: ExcludeFields: %w", err)
	}
	if len(r.policy.IncludeFields) > 0 {
		if r.exclusion, err = fingerprint.Only(r.policy.IncludeFields...); err != nil {
			return fmt.Errorf("policy: IncludeFields: %w", err)
		}
	}
	if r.policy.KeyField != "" {
		if r.keyField, err = fingerprint.ParseMember(r.policy.KeyField); err != nil {
			return fmt.Errorf("policy: KeyField: %w", err)
		}
	}
	r.redactions, err = wire.RedactionsOf(r.policy.RedactFields)
	return err
}

// MustRoute is Route for declarations. MustRoute panics when the policy is wrong, as
// routers do for a wrong pattern.
func (e *Engine) MustRoute(opts ...policy.Option) *Route {
	return must(e.RouteWith(Declaration{Place: callers.Place()}, opts...))
}

func must(route *Route, err error) *Route {
	if err != nil {
		panic(err)
	}
	return route
}

type onceFlag struct{ atomic.Bool }

// first reports true once.
func (f *onceFlag) first() bool { return !f.Load() && f.CompareAndSwap(false, true) }

// DeclaredAt names the file and the line of the program that declared the policy.
func (r *Route) DeclaredAt() string { return r.place }
