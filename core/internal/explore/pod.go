package explore

import (
	"context"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// settleBudget bounds how long an engine tries to store a response.
const settleBudget = 20 * time.Second

// pod is one process with its engine.
type pod struct {
	Pod
	world  *world
	engine *core.Engine
	route  *core.Route
	inner  *core.Route
}

func newPod(w *world, p Pod) *pod {
	pod := &pod{Pod: p, world: w}
	options := []core.Option{core.WithObserver(pod), core.WithInstance("pod"), core.WithSettleBudget(settleBudget)}
	if w.plan.Policy.OtherHeaders {
		options = append(options, core.WithKeyHeader(otherHeader), core.WithDocs("https://example.com/docs"), core.WithExpiryHeader("X-Expires"))
	}
	if w.plan.Unsettled > 0 {
		options = append(options, core.WithMaxUnsettled(w.plan.Unsettled))
	}
	if w.plan.isLimited() {
		options = append(options, core.WithScopeLimit(w.plan.Limit))
	}
	if w.plan.panics(InProblemWriter) {
		options = append(options, core.WithProblemWriter(pod.writeProblem))
	}
	engine, err := core.New(w.connect(pod), core.ScopeBy(pod.scope), options...)
	if err != nil {
		panic(err)
	}
	pod.engine = engine
	pod.route = engine.MustRoute(pod.policy()...)
	pod.route.Declare(core.Endpoint{Method: http.MethodPost, Pattern: path}) // for a reconciler that has seen no request
	if w.plan.nests() {
		simple := w.plan.Policy
		simple.Transactional, simple.Observe, simple.Abandoned = false, false, Reexecute
		simple.Release, simple.Keep, simple.Uncertain, simple.KeyField, simple.OtherHeaders = nil, nil, nil, false, false
		pod.inner = engine.MustRoute(simple.options(false, nil, nil)...)
	}
	return pod
}

// policy returns the options of the route's policy.
func (p *pod) policy() []policy.Option {
	plan := p.world.plan
	declared := plan.Policy
	if plan.sabotage == endsRunsEarly {
		declared.MaxRun /= 3
	}
	if declared.OnlySuccess {
		return declared.options(p.Exclude, failure.OnlySuccess, p.recover)
	}
	if declared.Keep5xx || plan.panics(InClassifier) {
		return declared.options(p.Exclude, p.classify, p.recover)
	}
	return declared.options(p.Exclude, nil, p.recover)
}

// wall is the wall clock of the pod's machine.
func (p *pod) wall(now time.Time) time.Time {
	plan, at := p.world.plan, now.Sub(p.world.start)
	return now.Round(0).Add(plan.jumped(Suspension, at) - plan.jumped(SetBack, at))
}

// outage returns the outage of the kind that is in force, or nil.
func (p *pod) outage(kind OutageKind) *Outage {
	now := p.world.since()
	for i := range p.world.plan.Outages {
		o := &p.world.plan.Outages[i]
		if o.Pod == p.ID && o.Kind == kind && o.From <= now && now < o.From+o.For {
			return o
		}
	}
	return nil
}

// isDead reports whether the process was killed.
func (p *pod) isDead() bool {
	return p.world.isDead(p.ID)
}

// hold blocks the calling goroutine while the pod is frozen, and reports whether it
// blocked. After the thaw each goroutine continues after a delay of its own.
func (p *pod) hold(request int, after time.Duration) bool {
	held := false
	for {
		o := p.outage(Freeze)
		if o == nil {
			return held
		}
		held = true
		jitter := time.Duration(p.world.hash(p.ID, request, int(after), int(o.From)) % 1_000_000)
		sleep(o.From + o.For - p.world.since() + after + jitter)
	}
}

// Observe implements event.Observer.
func (p *pod) Observe(ctx context.Context, e event.Event) {
	id := requestOf(ctx)
	by := p.world.plan.sabotage
	switch decision, panicked := isDecision(string(e.Result)), e.Result == event.CallbackPanicked; {
	case decision && by == losesDecisions, !decision && by == losesSettlement, panicked && by == hidesPanics:
		return
	}
	f := Fact{
		Pod: p.ID, Request: id, Inner: e.Endpoint() == innerEndpoint, Kind: Observed,
		Attempt: e.Attempt, Err: e.Err, Text: string(e.Result), Source: -1,
	}
	if n, asks := reconcilerOf(ctx); asks {
		f.Flags, f.N, f.Key = Reconciling, n, p.world.numbers[e.Record]
	}
	p.world.add(f)
	p.enter(id, InObserver)
}

// shutDown ends the engine.
func (p *pod) shutDown(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := p.world.since()
	p.world.add(Fact{Pod: p.ID, Request: -1, Kind: Closing, Source: -1})
	if p.world.plan.sabotage == closesLate {
		sleep(2 * time.Minute)
	}
	err := p.engine.Shutdown(ctx)
	p.world.add(Fact{Pod: p.ID, Request: -1, Kind: Closed, Err: err, Source: -1, Since: began, N: int(patience)})
}
