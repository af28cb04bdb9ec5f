package explore

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/internal/faultproxy"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// Connection is one pod's own client of a real store.
type Connection struct {
	Store storage.Store
	// Networks are on the way to the store's servers.
	Networks []*faultproxy.Proxy
	// Write notes an effect of the request in the transaction that is in handler.
	Write func(ctx, handler context.Context, tenant string, request int) error
	Close func()
}

// Backend is a real store under many plans at once.
type Backend struct {
	// Connect opens a client for a pod.
	Connect func() (*Connection, error)
	// Inspector looks at the store, past all faults of plans.
	Inspector storage.Inspector
	// Written returns the requests whose transactional effect is in the database. It
	// is nil where the store has no transactions.
	Written func(ctx context.Context, tenant string) ([]int, error)
	// Slack is how late anything may be on a machine that never stands still.
	Slack time.Duration
	// Trouble tells how the machine and the servers were, in a time.
	Trouble func(from, to time.Time) Trouble
}

// Trouble is what disturbs all plans alike.
type Trouble struct {
	// Stalled is the longest time that a goroutine had to wait for its turn.
	Stalled time.Duration
	// Away are the times in which a server was not there.
	Away []Away
}

// Away is a time in which a server was killed or frozen.
type Away struct{ From, To time.Time }

// leeway is how far a real run may be from the plan.
type leeway struct {
	tenant   string
	slack    time.Duration // for judgements of time
	unsteady bool          // the machine stood still for so long that calls and leases may have ended by that
	late     bool          // a server was away when the plan had come to its end
}

// realPatience bounds how long a key may be busy when all is over.
const realPatience = time.Minute

// reality is the real store under one plan.
type reality struct {
	*Backend
	world   *world
	pods    []*wire
	holders map[string]map[uint64]int // the requests that were given each attempt at a key
	// unsteady says that a call failed, or took long, which no fault of the plan explains.
	unsteady atomic.Bool
	unknown  []Fact // effects in transactions whose commit had no reply
}

// RunReal carries out the plan in real time over a real store, in which the tenant
// has nothing else. It returns the plan as it was, with the troubles of all plans.
func RunReal(plan Plan, backend *Backend, tenant string) (Plan, History, error) {
	plan.real.tenant = tenant
	w := newWorld(&plan)
	w.real = &reality{Backend: backend, world: w, holders: map[string]map[uint64]int{}}
	defer w.real.close()
	settled, err := w.runReal()
	trouble := backend.Trouble(w.start, time.Now())
	facts := w.sorted()
	plan = plan.clone()
	plan.disturb(w.start, trouble, settled)
	plan.real.slack += backend.Slack
	plan.real.unsteady = plan.real.unsteady || w.real.unsteady.Load()
	return plan, History{Facts: facts}, err
}

// runReal does what run does, without waiting for longer than it takes.
func (w *world) runReal() (settled time.Duration, err error) {
	pods := map[int]*pod{}
	for _, p := range w.plan.Pods {
		pods[p.ID] = newPod(w, p)
	}
	for i := range w.plan.Requests {
		r := &w.plan.Requests[i]
		w.group.Go(func() { w.send(pods[r.Pod], r, 0) })
	}
	for i, o := range w.plan.Outages {
		w.group.Go(func() { w.end(pods[o.Pod], o) })
		w.group.Go(func() { w.real.disconnect(i, o) })
	}
	w.group.Wait()
	settled = w.since()
	w.finish(pods)
	if err := w.real.resolve(); err != nil {
		return settled, err
	}
	return settled, w.real.report()
}

// finish asks for each key at each pod until it is free, and ends the pods. A key
// that stays busy for realPatience is blocked.
func (w *world) finish(pods map[int]*pod) {
	serving := []*pod{newPod(w, Pod{ID: len(w.plan.Pods) + 100, Exclude: w.plan.Pods[0].Exclude})}
	for _, p := range w.plan.Pods {
		if !w.plan.ends(p.ID) {
			serving = append(serving, pods[p.ID])
		}
	}
	id := probeID
	ask := func(p *pod, r *Request, flags Flags) (busy bool) {
		id++
		again := &Request{ID: id, Pod: p.ID, Key: r.Key, Body: r.Body, Handler: []Step{{Do: Effect}}}
		w.send(p, again, flags)
		return w.isBusy(id)
	}
	deadline := w.since() + realPatience
	for _, r := range w.plan.keys() {
		for _, p := range serving {
			for ask(p, r, 0) {
				if w.since() > deadline {
					ask(p, r, Probing)
					break
				}
				sleep(100 * time.Millisecond)
			}
		}
	}
	for _, p := range serving {
		p.shutDown(time.Minute)
	}
}

// isBusy reports whether another try may get another response: the key is in progress,
// or the store was away.
func (w *world) isBusy(request int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range slices.Backward(w.facts) {
		if f.Request == request && f.Kind == Shown {
			return f.has(Problem) && slices.Contains([]string{problem.InProgress, problem.StoreUnavailable, problem.NotConfirmed}, f.Text)
		}
	}
	return false
}

// keys are the first request of each key.
func (p *Plan) keys() (first []*Request) {
	for i := range p.Requests {
		r := &p.Requests[i]
		if !slices.ContainsFunc(first, func(other *Request) bool { return other.Key == r.Key }) {
			first = append(first, r)
		}
	}
	return first
}

// resolve adds the effects of the transactions that turn out to be committed.
func (r *reality) resolve() error {
	if len(r.unknown) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), realPatience)
	defer cancel()
	written, err := insist(ctx, func() ([]int, error) { return r.Written(ctx, r.world.tenant) })
	if err != nil {
		return fmt.Errorf("read the effects: %w", err)
	}
	for _, f := range r.unknown {
		if slices.Contains(written, f.Request) {
			r.world.facts = append(r.world.facts, f)
		}
	}
	return nil
}

// report adds what the store holds in the end.
func (r *reality) report() error {
	ctx, cancel := context.WithTimeout(context.Background(), realPatience)
	defer cancel()
	for _, request := range r.world.plan.keys() {
		key := storage.Key(r.world.tenant, http.MethodPost, path, keyName(request.Key))
		held, err := insist(ctx, func() (*storage.Record, error) { return r.Inspector.Lookup(ctx, key) })
		if err != nil {
			return fmt.Errorf("look a key up: %w", err)
		}
		f := Fact{Pod: -1, Request: -1, Kind: Holds, Key: request.Key, Source: -1, Text: "nothing"}
		if held != nil {
			f.Text, f.Status, f.Source = held.State.String(), held.Status, r.holderOf(key, held.Attempt)
		}
		r.world.add(f)
	}
	return nil
}

// insist asks until there is a reply: a server may be away.
func insist[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		reply, err := ask()
		if err == nil || wait(ctx, 100*time.Millisecond) != nil {
			return reply, err
		}
	}
}

func (r *reality) close() {
	for _, p := range r.pods {
		p.end()
	}
}

// disturb adds what befell all plans alike, and widens the judge's slack by what the
// machine took away.
func (p *Plan) disturb(start time.Time, trouble Trouble, settled time.Duration) {
	p.real.slack = 2 * trouble.Stalled
	p.real.unsteady = trouble.Stalled > p.Policy.steady()
	for _, away := range trouble.Away {
		from := away.From.Sub(start)
		p.real.late = p.real.late || away.To.Sub(start) > settled
		for _, pod := range p.Pods {
			p.Outages = append(p.Outages, Outage{Pod: pod.ID, Kind: Cut, From: from, For: away.To.Sub(away.From)})
		}
	}
}

// steady is how long a call may take on a machine that is well.
func (p *Policy) steady() time.Duration { return min(p.StoreTimeout, p.LockTTL) / 4 }
