package core

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/callers"
	"github.com/oncekey/oncekey/policy"
)

// Engine runs handlers once for each key. One engine serves all routes of a
// program. It is safe for concurrent use.
type Engine struct {
	shared
	observeOnly bool
	echo        bool                         // of WithKeyEcho
	checks      []func(*policy.Policy) error // of WithPolicyCheck
	defaults    *Route                       // for a Call without a policy
	declared    declaredRoutes
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
	e := &Engine{shared: shared{
		ledger: ledger.New(store), scope: scope, observer: guardedObserver{event.Log(nil)},
		responder:  responder{write: problem.Write, keyHeader: KeyHeader, replayHeader: "X-Idempotent-Replay"},
		keyHeaders: []string{KeyHeader}, instance: hostname, began: time.Now(),
	}}
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
	for _, name := range [...]string{e.responder.replayHeader, e.responder.expiryHeader} {
		if slices.Contains(e.keyHeaders, name) {
			return nil, fmt.Errorf("oncekey: WithReplayHeader or WithExpiryHeader is given %q, which carries the key: give another name", name)
		}
	}
	if e.echo {
		e.responder.echoed = e.keyHeaders
	}
	e.holder = ledger.Shortened(e.instance, ledger.MaxOriginText)
	e.program = programOf(e.service)
	if e.responder.custom {
		e.responder.write = guardedWriter(e.responder.write, e.observer.Observe)
	}
	e.defaults = e.MustRoute() // the default policy is valid
	e.declared.all = nil
	return e, nil
}

// Shutdown refuses requests, and waits for running handlers, for responses that are not
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

// Route compiles a policy for this engine. The error names every field at fault.
func (e *Engine) Route(opts ...policy.Option) (*Route, error) {
	return e.RouteWith(Declaration{Place: callers.Place()}, opts...)
}

// Declaration has the facts that an adapter adds to a policy.
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
	declared, err := e.declaredBy(opts)
	if err != nil {
		return nil, err
	}
	if declared.Transactional && !storage.Transacts(e.ledger.Store()) {
		return nil, &policy.FieldError{
			Field: "Transactional", Value: true,
			Want: fmt.Sprintf("false, because %T has no transactions", e.ledger.Store()),
		}
	}
	observes := declared.ObserveOnly || e.observeOnly
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

// declaredBy returns the policy of the options, if the functions of WithPolicyCheck allow it.
// They do not judge the default policy, which New declares.
func (e *Engine) declaredBy(opts []policy.Option) (policy.Policy, error) {
	declared, err := policy.New(opts...)
	if err != nil || e.defaults == nil {
		return declared, err
	}
	var all []error
	for _, check := range e.checks {
		copied := declared
		all = append(all, check(&copied))
	}
	return declared, errors.Join(all...)
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

// Routes returns the routes of this engine, in the order of their declaration. At most
// 1,000 are remembered.
func (e *Engine) Routes() []*Route {
	e.declared.mu.Lock()
	defer e.declared.mu.Unlock()
	return slices.Clone(e.declared.all)
}

// StorageKey returns the storage key of a record of this engine: storage.Key with the
// service's name (see WithService) as a further part.
func (e *Engine) StorageKey(scope, method, path, key string) string {
	digest := digestOf(e.service, &Request{Scope: scope, Method: method, Path: path, Key: key})
	return hex.EncodeToString(digest[:])
}

// ReplayHeader returns the name of the header that marks a replayed response. Adapters
// of other protocols than HTTP mark replays in their own way.
func (e *Engine) ReplayHeader() string { return e.responder.replayHeader }

// KeyHeaders returns the names of the headers that carry the key, as WithKeyHeader gives
// them. Adapters of other protocols than HTTP give the key of a call in the first.
func (e *Engine) KeyHeaders() []string { return slices.Clone(e.keyHeaders) }

// WriteProblem writes a problem by the function of WithProblemWriter, or else as RFC 9457.
// Adapters of other protocols than HTTP call it in Declaration.WriteProblem, which gets the
// problem as it is to be written, and carry its body in an error of their own.
func (e *Engine) WriteProblem(w http.ResponseWriter, r *http.Request, p problem.Problem) {
	e.responder.write(w, r, p)
}

// Inspector returns an Inspector, or an error if the engine's store has none.
func (e *Engine) Inspector() (*Inspector, error) {
	records, ok := e.ledger.Store().(storage.Inspector)
	if !ok {
		return nil, fmt.Errorf("oncekey: %T cannot be inspected: it has no methods of storage.Inspector", e.ledger.Store())
	}
	return &Inspector{&e.shared, e.defaults, records, event.About("", "", "", "", e.instance)}, nil
}

// Reconcile searches for abandoned keys until ctx ends, asks find about each, and settles
// the key by its answer: for clients that never come back. It runs no handler. Call it in
// each process: they share the work, and no two ask about one key at a time.
//
//	group.Go(func() error { return engine.Reconcile(ctx, find, core.ReconcileOptions{}) })
//
// It asks about the keys of this service alone (WithService), or without a name of this program.
// A key is claimed for the question, as by a retry. Meanwhile retries get 409 in_progress,
// and a late holder loses its lease. The settlement is stored only while no other attempt
// has claimed the key. An answer is the event reconciled once the store has confirmed it, an
// error of find recover_error, and the last AskAgain reconcile_gave_up: an operator has to
// settle the key. A response is kept as the route's policy says. Where several routes have the pattern
// of a record, or none is known to, the longest times and all RedactFields of these or of all apply.
//
// Reconcile returns nil when ctx has ended or the engine shuts down, and else an error that
// names a wrong option, or a store without storage.Inspector.
func (e *Engine) Reconcile(ctx context.Context, find FindFunc, options ReconcileOptions) error {
	records, err := e.Inspector()
	if err != nil {
		return fmt.Errorf("oncekey: %T cannot be reconciled: it has no methods of storage.Inspector", e.ledger.Store())
	}
	if find == nil {
		return errors.New("oncekey: Reconcile is given a nil function")
	}
	if err := options.complete(); err != nil {
		return err
	}
	r := reconciler{shared: &e.shared, records: records, find: find, options: options}
	r.routeOf = func(pattern string) *Route { return routeOf(e.Routes(), e.defaults, pattern) }
	r.run(ctx)
	return nil
}

// Ready returns nil when this process can serve guarded requests: the engine does not shut
// down, not too many responses wait for the store, and the store can be reached and grants
// every right that serving needs (see storage.Checker; a store without a Check counts as
// ready). Otherwise the error names the reason. Call Ready in a readiness probe, with a
// ctx that has a deadline.
func (e *Engine) Ready(ctx context.Context) error {
	switch _, refusal := e.ledger.Find(new([sha256.Size]byte)); refusal {
	case problem.ShuttingDown:
		return fmt.Errorf("%w: the engine shuts down", ErrUnavailable)
	case problem.StoreUnavailable:
		return fmt.Errorf("%w: %d responses wait for the store", ErrUnavailable, e.ledger.MaxUnsettled)
	}
	return checkStore(ctx, e.ledger.Store())
}

func checkStore(ctx context.Context, store storage.Store) (err error) {
	defer panicked.ToError("Store", &err)
	if checker, ok := store.(storage.Checker); ok {
		err = checker.Check(ctx)
	}
	return err
}

// Waiting returns the number of requests of this process that wait for the response of a
// concurrent one (policy.Wait), for a metric. Running names the runs of this process for
// which they wait.
func (e *Engine) Waiting() int { return e.waiters.count() }

// Running returns the runs of this process that have not ended: those with a running
// handler, and those with a result that waits for the store. The longest come first.
func (e *Engine) Running() []Running {
	holds := e.ledger.All()
	all := make([]Running, 0, len(holds))
	for _, hold := range holds {
		all = append(all, snapshot(hold))
	}
	slices.SortFunc(all, func(a, b Running) int { return cmp.Compare(b.For, a.For) })
	return all
}
