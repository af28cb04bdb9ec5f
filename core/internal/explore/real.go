package explore

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

// Connection is one pod's own client of a real store.
type Connection struct {
	Store storage.Store
	// Networks are the proxies between the pod and the store's servers.
	Networks []*faultproxy.Proxy
	// Write records an effect of the request in the handler's transaction.
	Write func(ctx, handler context.Context, tenant string, request int) error
	Close func()
}

// Backend is a real store under many plans at once.
type Backend struct {
	// Connect opens a client for a pod.
	Connect func() (*Connection, error)
	// Inspector reads the store without the plan's faults.
	Inspector storage.Inspector
	// Written returns the requests whose transactional effect is in the database. It
	// is nil if the store has no transactions.
	Written func(ctx context.Context, tenant string) ([]int, error)
	// Slack is the tolerance for late events on a machine without stalls.
	Slack time.Duration
	// Trouble returns the stalls and server outages between two times.
	Trouble func(from, to time.Time) Trouble
}

// Trouble is a disturbance of all plans alike.
type Trouble struct {
	// Stalled is the longest time that a goroutine waited for a processor.
	Stalled time.Duration
	// Downtimes are the times when a server was unreachable.
	Downtimes []Downtime
}

// Downtime is a time in which a server was killed or frozen.
type Downtime struct{ From, To time.Time }

// leeway is the tolerance of a real run.
type leeway struct {
	tenant   string
	slack    time.Duration // for judgements of time
	unsteady bool          // the machine stalled for so long that calls and leases may have ended
	late     bool          // a server was unreachable at the end of the plan
}

// realPatience bounds how long a key may be busy at the end.
const realPatience = time.Minute

// settlingPatience bounds how late a run reports its end after its last call.
const settlingPatience = 5 * time.Second

// reality is the real store under one plan.
type reality struct {
	*Backend
	world   *world
	pods    []*wire
	holders map[string]map[uint64]int // the requests that hold or held each attempt at a key
	// unsteady reports a call that failed, or took long, without a fault of the plan.
	unsteady atomic.Bool
	unknown  []Fact // effects in transactions whose commit had no reply
}

// RunReal carries out the plan in real time over a real store. No other plan may use
// the tenant. It returns the plan with the troubles of all plans added.
func RunReal(plan Plan, backend *Backend, tenant string) (Plan, History, error) {
	plan.real.tenant = tenant
	w := newWorld(&plan)
	w.real = &reality{Backend: backend, world: w, holders: map[string]map[uint64]int{}}
	defer w.real.close()
	settled, err := w.runReal()
	trouble := backend.Trouble(w.start, time.Now())
	facts := w.sorted()
	judged := plan.clone() // a watcher of a killed pod may still read the other
	judged.disturb(w.start, trouble, settled)
	judged.real.slack += backend.Slack
	judged.real.unsteady = judged.real.unsteady || w.real.unsteady.Load()
	return judged, History{Facts: facts}, err
}

// runReal is run in real time. It ends as soon as all requests have ended.
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
	w.awaitSettlements()
	if err := w.real.resolve(); err != nil {
		return settled, err
	}
	return settled, w.real.report()
}

// finish sends requests for each key to each pod until the key is released, and ends
// the pods. A key that stays busy for realPatience is blocked.
func (w *world) finish(pods map[int]*pod) {
	serving := w.serving(pods)
	id := probeID
	probe := func(p *pod, r *Request, flags Flags) (busy bool) {
		id++
		again := &Request{ID: id, Pod: p.ID, Key: r.Key, Body: r.Body, Handler: []Step{{Do: Effect}}}
		w.send(p, again, flags)
		return w.isBusy(id)
	}
	deadline := w.since() + realPatience
	for _, r := range w.plan.keys() {
		for _, p := range serving {
			pause := 100 * time.Millisecond // grows, because many plans may wait for one busy server
			for probe(p, r, 0) {
				if w.since() > deadline {
					probe(p, r, Probing)
					break
				}
				sleep(pause)
				pause = min(2*pause, 3*time.Second)
			}
		}
	}
	for _, p := range serving {
		p.shutDown(time.Minute)
	}
}

// awaitSettlements waits for the runs whose end is not reported yet. A Shutdown that gives up
// cancels their calls, and a real store may return from a call only at its deadline.
func (w *world) awaitSettlements() {
	isMissing := func(v Violation) bool { return v.Rule == SettlementEvents }
	limit := w.since() + w.plan.Policy.StoreTimeout + settlingPatience
	for w.since() < limit && slices.ContainsFunc(Judge(w.plan, History{Facts: w.sorted()}), isMissing) {
		sleep(20 * time.Millisecond)
	}
}

// isBusy reports whether a retry may get another response: the key is in progress,
// or the store was unreachable.
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

// resolve adds the effects of the transactions that were committed.
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
			r.world.facts = append(r.world.facts, &f)
		}
	}
	return nil
}

// report adds the final contents of the store.
func (r *reality) report() error {
	ctx, cancel := context.WithTimeout(context.Background(), realPatience)
	defer cancel()
	for _, request := range r.world.plan.keys() {
		key := r.world.storageKey(request.Key)
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

// insist repeats a call until the server replies. A server may be unreachable.
func insist[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		reply, err := call()
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

// disturb adds the troubles of all plans to the plan, and widens the judge's slack
// by the machine's stalls.
func (p *Plan) disturb(start time.Time, trouble Trouble, settled time.Duration) {
	p.real.slack = 2 * trouble.Stalled
	p.real.unsteady = trouble.Stalled > p.Policy.steady()
	for _, down := range trouble.Downtimes {
		from := down.From.Sub(start)
		p.real.late = p.real.late || down.To.Sub(start) > settled
		for _, pod := range p.Pods {
			p.Outages = append(p.Outages, Outage{Pod: pod.ID, Kind: Cut, From: from, For: down.To.Sub(down.From)})
		}
	}
}

// steady is the longest duration of a call on an undisturbed machine.
func (p *Policy) steady() time.Duration { return min(p.StoreTimeout, p.LockTTL) / 4 }
