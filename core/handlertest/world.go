package handlertest

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
)

// World is one run, in a bubble of its own: a store, the processes on it, and at most one
// fault. T is the test of the run: use its Cleanup and its Context.
type World struct {
	*testing.T

	plan    *plan // nil without a fault
	memory  *memstore.Store
	service Service
	before  int // effects counted before the run
	serving sync.WaitGroup
	resting atomic.Bool

	mu sync.Mutex
	facts
	passed    map[point]int
	numbered  bool // the points are known, or the client has its first response
	processes []*process
	last      *attempt
	lease     storage.Lease // the last one granted to the request
	outage    time.Time     // end of the store's outage
}

// Times of a run.
const (
	outage   = 5 * time.Second  // of the store
	deadline = 30 * time.Second // of a request that times out
	settling = 10 * time.Minute // for work in the background, after the final response
	leftover = time.Hour        // for timers that a handler has left behind
)

// run sends the request until the end.
func (w *World) run(start func(*World) Service) {
	w.service = start(w)
	if w.service.Routes == nil || w.service.Effects == nil || w.service.Request.Path == "" {
		w.Fatal("handlertest: the Service needs Routes, Effects and a Request with a Path")
	}
	if w.service.Scope == nil {
		w.service.Scope = core.SharedScope
	}
	w.before = w.service.Effects()
	w.boot()
	w.sendUntilFinal()
	time.Sleep(settling) //nolint:forbidigo // in a bubble
	w.settled = w.service.Effects() - w.before
	w.send()
	w.effects = w.service.Effects() - w.before
	w.stored = w.lookup()
	w.shutdown()
}

// shutdown ends the processes, and waits for their goroutines.
func (w *World) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), leftover)
	defer cancel()
	for _, p := range w.processes {
		_ = p.engine.Shutdown(ctx) // a killed process does not finish its work
	}
	w.serving.Wait()
	time.Sleep(leftover) //nolint:forbidigo // in a bubble
}

// arrive is called at each point, and returns the fault there.
func (w *World) arrive(k kind, name string) (fault, bool) {
	at := ""
	if k.isOutgoing() && w.plan == nil {
		at = place()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.numbered {
		return fault{}, false
	}
	p := point{kind: k, name: name}
	w.passed[p]++
	p.n, p.place = w.passed[p], at
	switch {
	case w.plan == nil && len(w.points) == maxPoints:
		w.tooMany = true
	case w.plan == nil:
		w.points = append(w.points, p)
	case w.plan.point.is(p):
		w.fired = true
		return w.plan.fault, true
	}
	return fault{}, false
}

// process is one process of the service, with its own engine.
type process struct {
	world   *World
	engine  *core.Engine
	handler http.Handler
	dead    chan struct{} // closed when the process is killed
}

// boot starts a process, which serves from now on.
func (w *World) boot() *process {
	p := &process{world: w, dead: make(chan struct{})}
	options := slices.Concat(w.service.Options, []core.Option{core.WithObserver(p)})
	var err error
	if p.engine, err = core.New(&link{p}, w.service.Scope, options...); err != nil {
		w.Fatal(err)
	}
	if p.handler = w.service.Routes(p.engine); p.handler == nil {
		w.Fatal("handlertest: Routes returned nil: return the router")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p
}

// current returns the process that serves, and starts one if the last was killed.
func (w *World) current() *process {
	w.mu.Lock()
	p := w.processes[len(w.processes)-1]
	w.mu.Unlock()
	if p.isDead() {
		return w.boot()
	}
	return p
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// die ends the process in a call. On the goroutine of the handler it does not return where
// the call can be unwound: the deferred functions still run, without the store.
func (p *process) die(in kind) error {
	p.world.mu.Lock()
	if !p.isDead() {
		close(p.dead)
	}
	p.world.mu.Unlock()
	_ = p.engine.Shutdown(ended()) // ends the work in the background
	if in.unwinds() && onHandler() {
		runtime.Goexit()
	}
	return errKilled
}

// Observe implements event.Observer. It notes the engine's problems and replays.
func (p *process) Observe(ctx context.Context, happened event.Event) {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a == nil {
		return
	}
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.world.observed = p.world.observed || happened.Observed
	a.replayed = a.replayed || happened.Result == event.Replay
	if happened.Code != "" {
		a.code = happened.Code
	}
}

// usurp ends the lease, and lets another process serve the client's retry to its end.
func (w *World) usurp() {
	w.mu.Lock()
	lease := w.lease
	w.mu.Unlock()
	_ = w.memory.Extend(w.Context(), lease, 0) // the lease may be lost already
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.boot()
		w.sendUntilFinal()
	}()
	<-done
}
