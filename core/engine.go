package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

// Engine runs handlers once for each key. One engine serves all routes of a
// program. It is safe for concurrent use.
type Engine struct {
	store        Store
	scope        Scope
	observer     Observer
	writeProblem ProblemWriter
	replayHeader string
	instance     string
	settleBudget time.Duration
	observeOnly  bool
	explain      bool
	defaults     *Route // what a Call without a policy gets
	live         *liveRuns
	renewals     renewals
	givingBack   chan struct{} // bounds what giveBack does at a time
}

// Scope names the principal whose key a request carries: the same key from two
// principals is two keys. An error, and an empty name, are answered with 401.
// It sees the request before its body is read, and must leave the body alone.
type Scope func(*http.Request) (string, error)

// ScopeBy makes a Scope of a function that names the principal, such as the
// user whom authentication put in the context.
func ScopeBy(principal func(*http.Request) (string, error)) Scope { return principal }

// SharedScope puts everybody's keys in one scope: the explicit opt-out for
// services with a single client. Anybody who knows a key can then read the
// answer stored under it.
func SharedScope(*http.Request) (string, error) { return "\x00shared", nil }

// Option changes an Engine's defaults.
type Option func(*Engine) error

// WithObserver sends events to observer. Default LogObserver(nil).
func WithObserver(observer Observer) Option {
	return func(e *Engine) error {
		if observer == nil {
			return errors.New("oncekey: WithObserver is given nil: give an Observer, or leave the option out")
		}
		e.observer = observer
		return nil
	}
}

// WithProblemWriter writes the engine's own answers in another form. Default:
// application/problem+json. The writer must keep Problem.Status.
func WithProblemWriter(write ProblemWriter) Option {
	return func(e *Engine) error {
		if write == nil {
			return errors.New("oncekey: WithProblemWriter is given nil: give a function, or leave the option out")
		}
		e.writeProblem = write
		return nil
	}
}

// WithReplayHeader names the header that marks a replayed answer. Default
// X-Idempotent-Replay.
func WithReplayHeader(name string) Option {
	return func(e *Engine) error {
		if !validFieldName(name) {
			return fmt.Errorf("oncekey: WithReplayHeader is given %q: give a header name", name)
		}
		e.replayHeader = http.CanonicalHeaderKey(name)
		return nil
	}
}

// WithInstance names this process in events. Default the host name.
func WithInstance(name string) Option {
	return func(e *Engine) error {
		e.instance = name
		return nil
	}
}

// WithSettleBudget bounds how long an answer that the store did not take is
// offered again in the background. Default 1 hour.
func WithSettleBudget(budget time.Duration) Option {
	return func(e *Engine) error {
		if budget <= 0 {
			return fmt.Errorf("oncekey: WithSettleBudget is given %v: give more than zero", budget)
		}
		e.settleBudget = budget
		return nil
	}
}

// WithMaxUnsettled bounds how many answers may wait in memory for a store that
// does not take them; beyond it, new keys are answered with 503. Default 1024.
func WithMaxUnsettled(n int) Option {
	return func(e *Engine) error {
		if n <= 0 {
			return fmt.Errorf("oncekey: WithMaxUnsettled is given %d: give more than zero", n)
		}
		e.live.maxUnsettled = n
		return nil
	}
}

// WithObserveOnly makes every route of the engine only watch, as policy.Observe
// does for one.
func WithObserveOnly() Option {
	return func(e *Engine) error {
		e.observeOnly = true
		return nil
	}
}

// WithDiffers tells the client, too, which members of its request differ from
// those of the key's first: the 422's member differs names them. It tells nobody
// anything but whether what they sent is what was sent before. Default: only the
// event says it.
func WithDiffers() Option {
	return func(e *Engine) error {
		e.explain = true
		return nil
	}
}

// New returns an engine that keeps its records in store. The scope is not
// optional: whose keys these are is a choice that nobody should forget. An engine
// keeps a timer: one that serves in a testing/synctest bubble is made in it.
func New(store Store, scope Scope, opts ...Option) (*Engine, error) {
	if store == nil {
		return nil, errors.New("oncekey: the store is nil: give one, such as memstore.New()")
	}
	if scope == nil {
		return nil, errors.New("oncekey: the scope is nil: give core.ScopeBy(user), or core.SharedScope")
	}
	hostname, _ := os.Hostname() // an event without an instance is still an event
	e := &Engine{
		store: store, scope: scope, observer: LogObserver(nil), writeProblem: writeProblem,
		replayHeader: "X-Idempotent-Replay", instance: hostname,
		settleBudget: time.Hour, live: newLiveRuns(), givingBack: make(chan struct{}, 64),
	}
	for _, opt := range opts {
		if err := opt(e); err != nil {
			return nil, err
		}
	}
	e.defaults = e.MustRoute() // the defaults are never wrong
	return e, nil
}

// Shutdown refuses new keys, then waits for the handlers that run and for the
// answers that the store has not taken yet. Call it after http.Server.Shutdown.
// When ctx ends first it gives those answers up and returns ErrShutdown wrapped
// with the context's error and their number.
func (e *Engine) Shutdown(ctx context.Context) error {
	select {
	case <-e.live.close():
		return nil
	case <-ctx.Done():
		unfinished := e.live.abort()
		return fmt.Errorf("%w (%d left): %w", ErrShutdown, unfinished, context.Cause(ctx))
	}
}

// Route is a policy compiled for one route. It is immutable and safe for
// concurrent use, but for one notice: see ResultNested.
type Route struct {
	policy    policy.Policy
	exclusion *fingerprint.Exclusion
	observes  bool // by the policy, or because the engine does
	nested    onceFlag
}

// Guards reports whether the route's policy guards requests of this method.
func (r *Route) Guards(method string) bool { return r.policy.Guards(method) }

// Route compiles a policy for this engine. The error names every field at fault.
func (e *Engine) Route(opts ...policy.Option) (*Route, error) {
	declared, err := policy.New(opts...)
	if err != nil {
		return nil, err
	}
	if declared.Transactional && !transacts(e.store) {
		return nil, &policy.FieldError{
			Field: "Transactional", Value: true,
			Want: fmt.Sprintf("false, because %T has no transactions", e.store),
		}
	}
	observes := declared.Observe || e.observeOnly
	if declared.Transactional && observes {
		return nil, &policy.FieldError{
			Field: "Transactional", Value: true,
			Want: "false where the route or the engine only observes, because the handler then runs in no transaction",
		}
	}
	exclusion, err := fingerprint.Exclude(declared.ExcludeFields...)
	if err != nil {
		return nil, fmt.Errorf("policy: ExcludeFields: %w", err)
	}
	return &Route{policy: declared, exclusion: exclusion, observes: observes}, nil
}

// MustRoute is Route for declarations: it panics when the policy is wrong,
// as routers do when a pattern is.
func (e *Engine) MustRoute(opts ...policy.Option) *Route {
	route, err := e.Route(opts...)
	if err != nil {
		panic(err)
	}
	return route
}
