package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

// Engine runs handlers once for each key. One engine serves all routes of a
// program. It is safe for concurrent use.
type Engine struct {
	store        guardedStore
	wall         machine.WallClock // nil: this machine's
	scope        Scope
	service      string
	observer     event.Observer
	writeProblem problem.Writer
	ownProblems  bool // writeProblem is the program's
	replayHeader string
	instance     string
	settleBudget time.Duration
	observeOnly  bool
	explain      bool
	defaults     *Route // what a Call without a policy gets
	live         *liveRuns
	renewals     renewals
	releasing    chan struct{} // bounds what releaseClaim does at a time
}

// Option changes an Engine's defaults.
type Option func(*Engine) error

// WithObserver sends events to observer. Default event.Log(nil).
func WithObserver(observer event.Observer) Option {
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
func WithProblemWriter(write problem.Writer) Option {
	return func(e *Engine) error {
		if write == nil {
			return errors.New("oncekey: WithProblemWriter is given nil: give a function, or leave the option out")
		}
		e.writeProblem, e.ownProblems = write, true
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

// WithService names the service that the keys belong to. Two services that share a
// Redis or a database then never see each other's records. The name is a part of
// every storage key and of DeriveKey's keys: choose it before the first deployment,
// because another name makes every key a new one. Default: none.
func WithService(name string) Option {
	return func(e *Engine) error {
		if name == "" {
			return errors.New(`oncekey: WithService is given "": give the service's name, such as "payments"`)
		}
		e.service = name
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

// WithDiffers tells the client which members of its request differ from those of
// the key's first request: the problem key_reused gets a member differs with their
// names. Only text that looks like a name is listed (fingerprint.LooksLikeName); a
// member others counts the rest. Default: only the event names them.
func WithDiffers() Option {
	return func(e *Engine) error {
		e.explain = true
		return nil
	}
}

// New returns an engine that keeps its records in store. The scope is not
// optional: whose keys these are is a choice that nobody should forget. An engine
// keeps a timer: one that serves in a testing/synctest bubble is made in it.
func New(store storage.Store, scope Scope, opts ...Option) (*Engine, error) {
	if store == nil {
		return nil, errors.New("oncekey: the store is nil: give one, such as memstore.New()")
	}
	if scope == nil {
		return nil, errors.New("oncekey: the scope is nil: give core.ScopeBy(user), or core.SharedScope")
	}
	hostname, _ := os.Hostname() // an event without an instance is still an event
	e := &Engine{
		store: guardedStore{store}, wall: wallOf(store), scope: scope, observer: event.Log(nil), writeProblem: problem.Write,
		replayHeader: "X-Idempotent-Replay", instance: hostname,
		settleBudget: time.Hour, live: newLiveRuns(), releasing: make(chan struct{}, 64),
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("oncekey: option %d of New is nil: leave it out", i+1)
		}
		if err := opt(e); err != nil {
			return nil, err
		}
	}
	e.observer = guardedObserver{e.observer}
	if e.ownProblems {
		e.writeProblem = e.guardedWriter(e.writeProblem)
	}
	e.renewals.now = e.now
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
// concurrent use.
type Route struct {
	policy    policy.Policy
	exclusion *fingerprint.Exclusion
	observes  bool     // by the policy, or because the engine does
	place     string   // where it is declared
	unguarded onceFlag // it was reported that the policy passes a method
}

// Guards reports whether the route's policy guards requests of this method.
func (r *Route) Guards(method string) bool { return r.policy.Guards(method) }

// Route compiles a policy for this engine. The error names every field at fault.
func (e *Engine) Route(opts ...policy.Option) (*Route, error) {
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
	if declared.Transactional && !transacts(e.store.Store) {
		return nil, &policy.FieldError{
			Field: "Transactional", Value: true,
			Want: fmt.Sprintf("false, because %T has no transactions", e.store.Store),
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
	return &Route{policy: declared, exclusion: exclusion, observes: observes, place: declaredAt()}, nil
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

// transacts reports whether the store has transactions. One that stands over others
// is a Transactor whatever those are, and says in Transacts what it is worth.
func transacts(store storage.Store) bool {
	if over, says := store.(interface{ Transacts() bool }); says {
		return over.Transacts()
	}
	_, can := store.(storage.Transactor)
	return can
}

type onceFlag struct{ atomic.Bool }

// first reports true once.
func (f *onceFlag) first() bool { return !f.Load() && f.CompareAndSwap(false, true) }
