package inspector

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/event"
)

// Events is an event.Observer that keeps the last events of this process. Make it with
// [Remember]. It is safe for concurrent use.
type Events struct {
	next  event.Observer
	since time.Time

	mu       sync.Mutex
	observed uint64 // events of this process
	ring     []Happened
	begin    int // of the oldest event, once the ring is full
}

// Happened is one event of this process.
type Happened struct {
	At       time.Time    `json:"at"`
	Result   event.Result `json:"result"`
	Endpoint string       `json:"endpoint,omitempty"`
	Status   int          `json:"status,omitempty"`
	Code     string       `json:"code,omitempty"`
	Attempt  uint64       `json:"attempt,omitempty"`
	Record   string       `json:"record,omitempty"`
	Operator string       `json:"operator,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Error    string       `json:"error,omitempty"`
	// Duration in milliseconds since the request was admitted.
	Duration float64 `json:"durationMs"`

	route, trace string
}

// Remember returns an observer that passes events on to next, and keeps the last n of them
// for the page, about 300 bytes each. It keeps no key, no scope and no renewal that
// succeeded, and a path only as event.Event.Endpoint shows it. A nil next means
// event.Log(nil), and an n of zero or less means 10,000.
//
//	events := inspector.Remember(event.Log(logger), 10_000)
//	engine, err := core.New(store, scope, core.WithObserver(events))
//	page, err := inspector.New(engine, authorize, inspector.Remembered(events))
func Remember(next event.Observer, n int) *Events {
	if next == nil {
		next = event.Log(nil)
	}
	if n <= 0 {
		n = 10_000
	}
	return &Events{next: next, since: time.Now(), ring: make([]Happened, 0, n)}
}

// Observe implements event.Observer.
func (e *Events) Observe(ctx context.Context, happened event.Event) {
	e.next.Observe(ctx, happened)
	if happened.Result == event.LeaseRenewed { // those of long runs would push all others out
		return
	}
	one := Happened{
		At: time.Now(), Result: happened.Result, Endpoint: happened.Endpoint(), Status: happened.Status, Code: happened.Code,
		Attempt: happened.Attempt, Record: happened.Record, Operator: happened.Operator, Reason: happened.Reason,
		Error: happened.ErrorText(), Duration: float64(happened.Duration) / float64(time.Millisecond),
		route: happened.Route, trace: happened.Trace,
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observed++
	if len(e.ring) < cap(e.ring) {
		e.ring = append(e.ring, one)
		return
	}
	e.ring[e.begin] = one
	e.begin = (e.begin + 1) % len(e.ring)
	e.since = e.ring[e.begin].At
}

// all returns the events that match, the oldest first. A nil Events has none.
func (e *Events) all(matches func(*Happened) bool) (found []Happened) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.ring {
		if one := &e.ring[(e.begin+i)%len(e.ring)]; matches(one) {
			found = append(found, *one)
		}
	}
	return found
}

// of returns the events of a record.
func (e *Events) of(record string) []Happened {
	return e.all(func(one *Happened) bool { return one.Record == record })
}

// from returns the time from which on all events are remembered. It is zero for a nil
// Events.
func (e *Events) from() time.Time {
	if e == nil {
		return time.Time{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.since
}

// asked returns how many decisions about each of the records this process has made.
func (e *Events) asked(records []Row) map[string]int {
	counts := make(map[string]int, len(records))
	for _, one := range records {
		counts[one.Record] = 0
	}
	for _, one := range e.all(func(one *Happened) bool { return isRequest(one.Result) }) {
		if _, listed := counts[one.Record]; listed {
			counts[one.Record]++
		}
	}
	return counts
}

// isRequest reports whether an event is the decision about a request.
func isRequest(result event.Result) bool {
	switch result {
	case event.Execute, event.Replay, event.InProgress, event.KeyReused, event.NotReplayable, event.KeyExpired,
		event.OutcomeUnknown, event.ScopeLimited, event.Refused, event.Unprotected, event.Unavailable:
		return true
	default:
		return false
	}
}

// endedRun reports whether an event ends a run with a response.
func endedRun(result event.Result) bool {
	return result == event.Completed || result == event.Failed || result == event.Unreplayable
}

// enoughRuns is the number of runs from which on a percentile says something.
const enoughRuns = 100

// slowest returns for each route the duration that 99 of 100 runs did not reach.
func (e *Events) slowest() map[string]time.Duration {
	durations := make(map[string][]float64)
	for _, one := range e.all(func(one *Happened) bool { return endedRun(one.Result) }) {
		durations[one.route] = append(durations[one.route], one.Duration)
	}
	slowest := make(map[string]time.Duration)
	for route, all := range durations {
		if len(all) >= enoughRuns {
			slices.Sort(all)
			slowest[route] = time.Duration(all[len(all)*99/100] * float64(time.Millisecond))
		}
	}
	return slowest
}
