package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// Engine runs handlers once for each key. One engine serves all routes of a
// program. It is safe for concurrent use.
type Engine struct {
	store        guardedStore
	wall         machine.WallClock // nil: the real clock
	scope        Scope
	service      string
	observer     event.Observer
	writeProblem problem.Writer
	ownProblems  bool // writeProblem comes from WithProblemWriter
	replayHeader string
	onReplay     func(http.Header, *http.Request, *storage.Record) // nil: none
	docs         string                                            // of WithDocs, or ""
	keyHeaders   []string                                          // canonical names, at least one
	instance     string
	settleBudget time.Duration
	observeOnly  bool
	explain      bool
	defaults     *Route // for a Call without a policy
	live         *liveRuns
	renewals     renewals
	releasing    chan struct{} // bounds the concurrent releases of releaseClaim
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

// WithProblemWriter writes the engine's own responses in another form. Default:
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

// WithReplayHeader names the header that marks a replayed response. Default
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

// WithSettleBudget bounds the time for which the engine tries to store a response in
// the background, after the store failed. Default 1 hour.
func WithSettleBudget(budget time.Duration) Option {
	return func(e *Engine) error {
		if budget <= 0 {
			return fmt.Errorf("oncekey: WithSettleBudget is given %v: give more than zero", budget)
		}
		e.settleBudget = budget
		return nil
	}
}

// WithMaxUnsettled bounds the number of responses that wait in memory while the
// store fails. Above n, new keys get 503. Default 1024.
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
// every storage key and of DeriveKey's keys. Choose the name before the first
// deployment, because with another name every key is new. Default: no name.
func WithService(name string) Option {
	return func(e *Engine) error {
		if name == "" {
			return errors.New(`oncekey: WithService is given "": give the service's name, such as "payments"`)
		}
		e.service = name
		return nil
	}
}

// WithObserveOnly makes every route of the engine observe, as policy.Observe does
// for one route.
func WithObserveOnly() Option {
	return func(e *Engine) error {
		e.observeOnly = true
		return nil
	}
}

// WithDiffers tells the client which members of the request differ from the key's
// first request. The problem key_reused gets a member differs with their names. Only
// text that looks like a name is listed (fingerprint.LooksLikeName), and a member
// others counts the rest. Default: only the event contains the names.
func WithDiffers() Option {
	return func(e *Engine) error {
		e.explain = true
		return nil
	}
}

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
		store: guardedStore{store}, wall: wallOf(store), scope: scope, observer: event.Log(nil), writeProblem: problem.Write,
		replayHeader: "X-Idempotent-Replay", keyHeaders: defaultKeyHeaders, instance: hostname,
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
	e.defaults = e.MustRoute() // the default policy is valid
	return e, nil
}

// Shutdown refuses new keys, and waits for running handlers and for responses that
// are not stored yet. Call Shutdown after http.Server.Shutdown. When ctx ends first,
// Shutdown stops storing responses, and returns ErrShutdown wrapped with the
// context's error and the number of unfinished runs and background jobs.
func (e *Engine) Shutdown(ctx context.Context) error {
	select {
	case <-e.live.close():
		return nil
	case <-ctx.Done():
		unfinished := e.live.abort()
		return fmt.Errorf("%w (%d left): %w", ErrShutdown, unfinished, context.Cause(ctx))
	}
}
