package handlertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

// maxPoints bounds the points of a handler. Each point has up to 14 runs.
const maxPoints = 200

// longestRun bounds a run in real time. A goroutine that waits for a mutex stops the
// virtual time of its bubble, and only the end of the program ends it.
const longestRun = 2 * time.Minute

// Service is the service under test.
type Service struct {
	// Routes builds the routes on an engine, as the program does. Each process of a run
	// calls Routes once, so a pool of database connections or a cache is best made
	// here. Required.
	Routes func(engine *core.Engine) http.Handler
	// Request is the request that the client sends.
	Request Request
	// Effects counts the effects of the request, such as charges. Count at the provider
	// or in the database itself: a count by the Transport or the Connector of the World
	// would meet the fault. Required.
	Effects func() int
	// Scope of the engine. Default core.SharedScope.
	Scope core.Scope
	// DB is the database of routes with policy.Transactional: sqlstore.Tx returns a
	// transaction of it. Open it over World.Connector; all processes of a run share it.
	// Default nil: the kit's store has no transactions, and refuses such a route.
	DB *sql.DB
	// Options of the engine. The kit replaces its observer.
	Options []core.Option
}

// Request is a request without its idempotency key, which the kit sets. All attempts are
// equal.
type Request struct {
	// Method is the HTTP method. Default POST.
	Method string
	// Path is the path and the query, such as "/payments". Required.
	Path string
	// Body is the body.
	Body string
	// Header has the fields of the request, such as the Authorization. Without a
	// Content-Type, a request with a body gets application/json.
	Header http.Header
	// KeyHeader is the header that carries the key. Default core.KeyHeader. For a route with
	// a policy.KeyField or a policy.KeyPattern, put a key of your own into the Body or the
	// Header, and name a header here that the engine does not read, such as X-Unused.
	KeyHeader string
}

// Run tests that the service is safe to retry. It fails t with advice for each run that
// is wrong, and logs the matrix of all runs. The function start is called once for each
// run, in a bubble, and makes everything that outlives a process, such as a fake provider
// and its count.
func Run(t *testing.T, start func(*World) Service) {
	t.Helper()
	report := Examine(t, start)
	t.Logf("\n%s", report)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
}

// Examine does the runs of Run and returns their report. It fails t only where the
// service cannot be tested: start calls t.Fatal, or a Service has no Routes.
func Examine(t *testing.T, start func(*World) Service) *Report {
	t.Helper()
	clean := run(t, start, nil)
	report := &Report{want: clean.effects, runs: []*outcome{clean}}
	if report.setup = clean.setupError(); report.setup != nil {
		return report
	}
	for _, p := range clean.points {
		for _, f := range faults[p.kind] {
			report.runs = append(report.runs, run(t, start, &plan{p, f}))
		}
	}
	report.judge()
	return report
}

// plan is the fault of a run.
type plan struct {
	point point
	fault fault
}

// outcome is the end of one run.
type outcome struct {
	facts
	plan     *plan // nil without a fault
	stuck    string
	findings []finding
}

// facts are what happened in a run that has ended.
type facts struct {
	points    []point
	tooMany   bool
	fired     bool // the fault has happened
	observed  bool // a route only observes
	settled   int  // effects before the last request
	effects   int
	responses []exchange
	stored    *stored
}

// setupError tells why a run without a fault is no base for others, or returns nil.
func (o *outcome) setupError() error {
	switch final := o.final(); {
	case o.stuck != "":
		return fmt.Errorf("handlertest: the run without a fault did not end: %s", o.stuck)
	case final == nil:
		return fmt.Errorf("handlertest: without a fault the client got no final response, but %s: make the request succeed", o.told())
	case o.observed:
		return errors.New("handlertest: the route only observes: leave policy.ObserveOnly and core.WithObserveOnly out of the test")
	case final.status >= http.StatusBadRequest:
		return fmt.Errorf("handlertest: without a fault the response was %s %q: make the request succeed", final, final.body)
	case !slices.ContainsFunc(o.points, func(p point) bool { return p.kind == acquire }):
		return fmt.Errorf("handlertest: the request was not guarded: the response was %s without a call to the store", final)
	case o.effects < 1:
		return fmt.Errorf("handlertest: Effects counted %d without a fault: count the effects of this run's provider", o.effects)
	case o.tooMany:
		return fmt.Errorf("handlertest: the handler has more than %d points: test it with a smaller request", maxPoints)
	default:
		return nil
	}
}

// run does one run in a bubble.
func run(t *testing.T, start func(*World) Service, p *plan) (o *outcome) {
	t.Helper()
	o = &outcome{plan: p}
	watchdog := time.AfterFunc(longestRun, func() {
		panic(fmt.Sprintf("handlertest: the run with the fault %q does not end: is a mutex locked without a deferred Unlock?", o.name()))
	})
	defer watchdog.Stop()
	defer func() {
		if cause := recover(); cause != nil { // the bubble's goroutines wait for each other
			o.stuck = fmt.Sprint(cause)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := &World{T: t, plan: p, memory: memstore.New(), passed: map[point]int{}}
		w.run(start)
		w.mu.Lock()
		defer w.mu.Unlock()
		o.facts = w.facts // leaves the bubble: nobody reads the times of its record
	})
	return o
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
