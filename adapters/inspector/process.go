package inspector

import (
	"context"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// Process is the data of the screen of this process's runs.
type Process struct {
	Instance string `json:"instance"`
	// NotReady is why this process takes no new requests, or empty.
	NotReady string    `json:"notReady,omitempty"`
	Runs     []LiveRun `json:"runs"`
	// Unsettled is the number of runs whose result waits for the store.
	Unsettled int `json:"unsettled"`
}

// LiveRun is one run of this process.
type LiveRun struct {
	Record   string `json:"record"`
	Endpoint string `json:"endpoint"`
	Attempt  uint64 `json:"attempt"`
	// For is the time since the claim in milliseconds, LeaseLeft the rest of the lease, and
	// Unsettled the time for which the result waits for the store. Waiting is the number of
	// requests that wait for the run.
	For       int64 `json:"forMs"`
	LeaseLeft int64 `json:"leaseLeftMs"`
	Unsettled int64 `json:"unsettledMs,omitempty"`
	Waiting   int   `json:"waiting"`

	Run core.Running `json:"-"`
}

// readyWithin bounds the question to the store.
const readyWithin = 2 * time.Second

func (p *Page) running(v visit) (screen, error) {
	ctx, cancel := context.WithTimeout(v.Context(), readyWithin)
	defer cancel()
	shown := &Process{Instance: p.records.Instance(), Runs: []LiveRun{}, Unsettled: p.waiting()}
	if err := p.engine.Ready(ctx); err != nil {
		shown.NotReady = err.Error()
	}
	for _, run := range p.engine.Running() {
		shown.Runs = append(shown.Runs, LiveRun{
			Record: run.Record, Endpoint: run.Endpoint.String(), Attempt: run.Attempt, For: run.For.Milliseconds(),
			LeaseLeft: run.LeaseLeft.Milliseconds(), Unsettled: run.Unsettled.Milliseconds(), Waiting: run.Waiting, Run: run,
		})
	}
	return screen{name: "running", data: shown}, nil
}

// runOf returns this process's run of the record, or nil.
func (p *Page) runOf(id string) *core.Running {
	for _, run := range p.engine.Running() {
		if run.Record == id {
			return &run
		}
	}
	return nil
}

// Routes is the data of the screen of routes.
type Routes struct {
	Routes []DeclaredRoute `json:"routes"`
	// Since is the time from which on the counts are complete: an hour ago, or later. Zero
	// where this process remembers no events.
	Since time.Time `json:"since,omitzero"`
}

// DeclaredRoute is a route with its policy and its last hour in this process.
type DeclaredRoute struct {
	Endpoints []string `json:"endpoints"`
	RoutePolicy
	// OnStoreError is the policy's.
	OnStoreError string `json:"onStoreError"`
	First        int    `json:"first"` // runs with a stored response
	Replays      int    `json:"replays"`
	Conflicts    int    `json:"conflicts"` // 409
	Reused       int    `json:"reused"`    // 422
	Failures     int    `json:"failures"`  // 5xx, abandoned and lost ones
}

func (p *Page) routes(visit) (screen, error) {
	shown := &Routes{Routes: []DeclaredRoute{}}
	hour := time.Now().Add(-time.Hour)
	if since := p.events.from(); !since.IsZero() {
		shown.Since = later(since, hour)
	}
	lastHour := p.events.all(func(one *Happened) bool { return one.At.After(hour) })
	for _, route := range p.engine.Routes() {
		declared := route.Policy()
		one := DeclaredRoute{RoutePolicy: *policyOf(route), OnStoreError: declared.OnStoreError.String(), Endpoints: []string{}}
		for _, e := range route.Endpoints() {
			one.Endpoints = append(one.Endpoints, e.String())
			one.count(lastHour, e)
		}
		shown.Routes = append(shown.Routes, one)
	}
	return screen{name: "routes", data: shown}, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// count counts the events of an endpoint.
func (r *DeclaredRoute) count(events []Happened, e core.Endpoint) {
	for i := range events {
		one := &events[i]
		if one.Endpoint != e.String() {
			continue
		}
		switch one.Result {
		case event.Completed, event.Failed, event.Unreplayable:
			r.First++
		case event.Replay:
			r.Replays++
		case event.InProgress, event.NotReplayable, event.KeyExpired, event.OutcomeUnknown:
			r.Conflicts++
		case event.KeyReused:
			r.Reused++
		case event.Unavailable, event.DeleteKey, event.Uncertain, event.ResponseLost:
			r.Failures++
		default: // no response to a client
		}
	}
}

// RoutePolicy names a policy.
type RoutePolicy struct {
	Text       string `json:"text"`
	DeclaredAt string `json:"declaredAt"`
	Observes   bool   `json:"observes,omitempty"`
}

func policyOf(route *core.Route) *RoutePolicy {
	declared := route.Policy()
	return &RoutePolicy{Text: declared.String(), DeclaredAt: route.DeclaredAt(), Observes: route.Observes()}
}

// routeOf returns the route that serves a pattern, or nil when none or several do.
func routeOf(engine *core.Engine, pattern string) (found *core.Route) {
	if pattern == "" {
		return nil
	}
	for _, route := range engine.Routes() {
		serves := slices.ContainsFunc(route.Endpoints(), func(e core.Endpoint) bool { return e.Pattern == pattern || e.String() == pattern })
		switch {
		case !serves:
		case found != nil:
			return nil
		default:
			found = route
		}
	}
	return found
}

// patterns returns the patterns of all routes, sorted: each as written writes it.
func (p *Page) patterns(written func(core.Endpoint) string) (all []string) {
	for _, route := range p.engine.Routes() {
		for _, e := range route.Endpoints() {
			all = append(all, written(e))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// recorded returns a route's pattern as records have it.
func recorded(e core.Endpoint) string { return e.Pattern }

// Doctor is the data of the screen of findings. Mend and Look count the findings of these
// grades, and Took is the time of the examination in milliseconds.
type Doctor struct {
	Findings []Finding `json:"findings"`
	Mend     int       `json:"mend"`
	Look     int       `json:"look"`
	Took     int64     `json:"tookMs"`
}

// Finding is a storage.Finding for JSON.
type Finding struct {
	Check  string `json:"check"`
	Grade  string `json:"grade"`
	Seen   string `json:"seen"`
	Advice string `json:"advice,omitempty"`
}

// examineWithin bounds the calls of a screen at the store, such as all checks together, and checkWithin the first check, which
// leaves time for the others.
const examineWithin, checkWithin = 20 * time.Second, 5 * time.Second

func (p *Page) doctor(v visit) (screen, error) {
	ctx, begin := v.Context(), time.Now()
	findings := []storage.Finding{p.ready(ctx)}
	if examined, can := p.records.Examine(ctx); can {
		findings = append(findings, examined...)
	} else {
		findings = append(findings, storage.Finding{Check: "set-up", Grade: storage.Skipped, Seen: p.records.Store() + " has no checks of its own", Advice: "A store that is a storage.Examiner has them."})
	}
	shown := &Doctor{Took: time.Since(begin).Milliseconds()}
	for _, f := range findings {
		switch f.Grade {
		case storage.Mend:
			shown.Mend++
		case storage.Look:
			shown.Look++
		default: // good, or skipped
		}
		shown.Findings = append(shown.Findings, Finding{f.Check, f.Grade.String(), f.Seen, f.Advice})
	}
	return screen{name: "doctor", data: shown}, nil
}

// ready is the finding about this process.
func (p *Page) ready(ctx context.Context) storage.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	if err := p.engine.Ready(ctx); err != nil {
		return storage.Finding{Check: "ready to serve", Grade: storage.Mend, Seen: err.Error(), Advice: "Guarded routes respond with 503 until this is mended."}
	}
	return storage.Finding{Check: "ready to serve", Grade: storage.Good, Seen: "the store can be reached, and grants this process every right that serving needs"}
}
