package explore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// probeID is the first identity of the requests that the judge sends at the end.
const probeID = 1000

// world is one schedule under way. Each world has its own bubble and shares no state.
type world struct {
	log
	plan  *Plan
	store *store
	real  *reality // nil in a simulation
	group sync.WaitGroup

	tenant  string // the scope of all requests
	tokens  map[storage.Token]caller
	counts  map[counted]int
	entries map[Panicking]int // calls of callbacks; N is zero
	names   map[string]bool   // storage keys of the calls inside handlers
	numbers map[string]int    // keys of the plan, by their storage keys

	questions map[int]int      // how many each reconciler has asked
	asking    map[question]int // the identities of the last ones
}

// Run carries out the plan.
func Run(t *testing.T, plan *Plan) (h History) {
	t.Helper()
	var w *world
	defer func() {
		if cause := recover(); cause != nil {
			h.Stuck = fmt.Sprint(cause)
		}
		h.Facts = w.sorted()
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(plan) // leaves the bubble: its facts have virtual times alone
		w.run()
	})
	return h
}

// connect returns the pod's connection to the store.
func (w *world) connect(p *pod) storage.Store {
	if w.real != nil {
		return w.real.open(p)
	}
	return &link{world: w, pod: p}
}

func newWorld(plan *Plan) *world {
	now := time.Now()
	w := &world{
		log: log{start: now, facts: make([]*Fact, 0, 256)}, plan: plan,
		store:  &store{start: now, plan: plan, records: map[string]*record{}, lives: map[string]int{}, scopes: map[string]*scope{}},
		tenant: cmp.Or(plan.real.tenant, "tenant"), tokens: map[storage.Token]caller{}, counts: map[counted]int{}, entries: map[Panicking]int{}, names: map[string]bool{},
		numbers: map[string]int{}, questions: map[int]int{}, asking: map[question]int{},
	}
	for _, r := range plan.Requests {
		w.numbers[w.storageKey(r.Key)] = r.Key
		w.names[storage.Key(w.tenant, storage.MethodCall, innerName, fmt.Sprint("inner ", r.Key))] = true
	}
	return w
}

// run carries out the plan, probes every key, and ends the pods.
func (w *world) run() {
	pods := map[int]*pod{}
	for _, p := range w.plan.Pods {
		pods[p.ID] = newPod(w, p)
	}
	for i := range w.plan.Requests {
		r := &w.plan.Requests[i]
		if p := pods[r.Pod]; p != nil {
			w.group.Go(func() { w.send(p, r, 0) })
		}
	}
	for _, o := range w.plan.Outages {
		if p := pods[o.Pod]; p != nil {
			w.group.Go(func() { w.end(p, o) })
		}
	}
	for n, o := range w.plan.Operations {
		if p := pods[o.Pod]; p != nil {
			w.group.Go(func() { w.operate(p, n) })
		}
	}
	for n, r := range w.plan.Reconcilers {
		if p := pods[r.Pod]; p != nil {
			w.group.Go(func() { w.reconcile(p, n) })
		}
	}
	sleep(w.plan.settled() - w.since())
	w.probe(pods)
	w.group.Wait()
	w.report()
}

// end carries out the outages that involve the engine: Kill and Stop.
func (w *world) end(p *pod, o Outage) {
	switch o.Kind {
	case Kill:
		sleep(o.From)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.engine.Shutdown(ended) // the goroutines of a killed process must still end
	case Stop:
		sleep(o.From)
		p.hold(-1, 0)
		if !p.isDead() {
			p.shutDown(o.For)
		}
	case Partition, Cut, Freeze, numOutages:
	}
}

// serving returns a fresh pod, and the pods that still serve.
func (w *world) serving(pods map[int]*pod) []*pod {
	serving := []*pod{newPod(w, Pod{ID: len(w.plan.Pods) + 100, Exclude: w.plan.Pods[0].Exclude})}
	for _, p := range w.plan.Pods {
		if !w.plan.ends(p.ID) {
			serving = append(serving, pods[p.ID])
		}
	}
	return serving
}

// probe sends a request for each key to a fresh pod and to one that still serves,
// and then shuts all pods down.
func (w *world) probe(pods map[int]*pod) {
	serving := w.serving(pods)
	asking := serving
	if len(asking) > 2 { // one of the other pods is enough
		asking = []*pod{serving[0], serving[1+w.hash(serving[0].ID)%uint64(len(serving)-1)]}
	}
	id := probeID
	for _, r := range w.plan.keys() {
		for _, p := range asking {
			at := w.since() + time.Millisecond
			w.send(p, &Request{ID: id, Pod: p.ID, Key: r.Key, At: at, Body: r.Body, Handler: []Step{{Do: Effect}}}, Probing)
			id++
		}
	}
	for _, p := range serving {
		p.shutDown(time.Minute)
	}
}

// ends reports whether the plan kills the pod or shuts it down.
func (p *Plan) ends(pod int) bool {
	return slices.ContainsFunc(p.Outages, func(o Outage) bool { return o.Pod == pod && (o.Kind == Kill || o.Kind == Stop) })
}

// report adds the final contents of the store.
func (w *world) report() {
	for _, r := range w.plan.keys() {
		held := w.store.records[w.storageKey(r.Key)]
		f := Fact{Pod: -1, Request: -1, Kind: Holds, Key: r.Key, Source: -1, Text: "nothing"}
		if held != nil && held.result.State != 0 {
			f.Text, f.Status, f.Source = held.result.State.String(), held.result.Status, held.holder
		}
		w.add(f)
	}
}

// isDead reports whether the pod was killed.
func (w *world) isDead(pod int) bool {
	now := w.since()
	return slices.ContainsFunc(w.plan.Outages, func(o Outage) bool { return o.Pod == pod && o.Kind == Kill && o.From <= now })
}

// add records a fact. A killed process has no facts, although its engine must still
// end here. Its last calls may reach the store.
func (w *world) add(f Fact) {
	if f.Kind == Applied || f.Kind == Changed || f.Kind == Took && f.has(InTx) || !w.isDead(f.Pod) {
		w.log.add(f)
	}
}

func (w *world) since() time.Duration { return time.Since(w.start) }

// hash derives a number from the plan's seed and an identity.
func (w *world) hash(parts ...int) uint64 {
	h := w.plan.Seed
	for _, part := range parts {
		h = mix(h + 0x9e3779b97f4a7c15 + uint64(part))
	}
	return mix(h)
}

// introduce records which request uses a token.
func (w *world) introduce(ctx context.Context, p *pod, c storage.Claim) caller {
	who := w.reader(ctx, c.Key)
	if n, asks := reconcilerOf(ctx); asks {
		who = w.inquire(p, n, c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[c.Token] = who
	return who
}

// reader is the request that reads the record of a key.
func (w *world) reader(ctx context.Context, key string) caller {
	w.mu.Lock()
	defer w.mu.Unlock()
	return caller{request: requestOf(ctx), inner: w.names[key]}
}

func (w *world) callerOf(token storage.Token) caller {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tokens[token]
}

// counted are the calls of one caller and kind.
type counted struct {
	caller
	op Op
}

// count numbers the calls of one caller.
func (w *world) count(who caller, op Op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[counted{who, op}]++
	return w.counts[counted{who, op}] - 1
}

func (w *world) faultOf(who caller, op Op, n int) *CallFault {
	if who.inner {
		return nil
	}
	for i := range w.plan.Calls {
		if c := &w.plan.Calls[i]; c.Request == who.request && c.Op == op && c.N == n {
			return c
		}
	}
	return nil
}

// later applies a call after its caller has given up.
func (w *world) later(after time.Duration, do func()) {
	w.group.Go(func() {
		sleep(after)
		do()
	})
}

// effectUnder finds the first effect under a key.
func (w *world) effectUnder(key string) (source int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.facts {
		if f.Kind == Took && !f.Inner && keyName(f.Key) == key {
			return f.Request, true
		}
	}
	return -1, false
}
