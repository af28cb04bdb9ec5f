package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
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

// Route is a policy compiled for one route. It is immutable and safe for
// concurrent use.
type Route struct {
	policy    policy.Policy
	exclusion *fingerprint.Exclusion
	keyField  *fingerprint.Member // nil: the header holds the key
	headers   []string            // IncludeHeaders, canonical and sorted

	redactions []redaction
	observes   bool     // set by the policy or by WithObserveOnly
	place      string   // file and line of the declaration
	unguarded  onceFlag // set when reportUnguarded has reported the route
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
	if declared.Transactional && !storage.Transacts(e.store.Store) {
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
	route := &Route{policy: declared, observes: observes, place: declaredAt(), headers: canonicalNames(declared.IncludeHeaders)}
	if err := route.compile(); err != nil {
		return nil, err
	}
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
	for _, field := range r.policy.RedactFields {
		members, err := fingerprint.Exclude(field)
		if err != nil {
			return fmt.Errorf("policy: RedactFields: %w", err)
		}
		r.redactions = append(r.redactions, redaction{field, members})
	}
	return nil
}

// MustRoute is Route for declarations. MustRoute panics when the policy is wrong, as
// routers do for a wrong pattern.
func (e *Engine) MustRoute(opts ...policy.Option) *Route {
	route, err := e.Route(opts...)
	if err != nil {
		panic(err)
	}
	return route
}

type onceFlag struct{ atomic.Bool }

// first reports true once.
func (f *onceFlag) first() bool { return !f.Load() && f.CompareAndSwap(false, true) }

// declaredAt returns the file and the line that declare a policy: the first caller
// outside of this module's guards.
func declaredAt() string {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if !isGuards(frame.Function) {
			return filepath.Base(filepath.Dir(frame.File)) + "/" + filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}

// isGuards reports whether a function belongs to core or to an adapter.
func isGuards(function string) bool {
	const module = "github.com/oncekey/oncekey/"
	folder, name := path.Split(function)
	pkg, _, _ := strings.Cut(name, ".")
	switch strings.TrimPrefix(folder+pkg, module) {
	case "core", "adapters/chi", "adapters/gin", "adapters/internal/declared":
		return true
	default:
		return false
	}
}

// DeclaredAt names the file and the line of the program that declared the policy.
func (r *Route) DeclaredAt() string { return r.place }
