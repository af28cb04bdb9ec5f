package inspector

import (
	"net/http"
	"strconv"
)

// Tail is the data of the events of this process. It has no HTML.
type Tail struct {
	Events []Happened `json:"events"`
	// Next is the value of after for the events that follow.
	Next uint64 `json:"next"`
	// Skipped is the number of events after the one asked for that are not remembered
	// any more.
	Skipped uint64 `json:"skipped,omitempty"`
}

// mostEvents bounds one reply.
const mostEvents = 1000

// tail returns the events after a number of events, or the last ones. Without events that
// this process remembers it is 404.
func (p *Page) tail(v visit) (screen, error) {
	if p.events == nil {
		return screen{}, fault(http.StatusNotFound, "This process remembers no events", "Give the page its events: inspector.Remembered.")
	}
	if !wantsJSON(v.Request) {
		return screen{}, fault(http.StatusNotAcceptable, "These events have no page", "Ask for application/json, as oncekey tail does.")
	}
	asked := v.URL.Query().Get("after")
	after, err := strconv.ParseUint(asked, 10, 64)
	if err != nil && asked != "" {
		return screen{}, fault(http.StatusBadRequest, "The place in the events cannot be read", "after is "+strconv.Quote(asked)+": give the number next of an earlier reply.")
	}
	return screen{data: p.events.after(after, asked == "")}, nil
}

// after returns the events after the first n of this process, or the last few. For a number
// that this process has not reached, it returns all that it remembers.
func (e *Events) after(n uint64, last bool) *Tail {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := uint64(len(e.ring))
	first := e.observed - kept // the number of events that are not remembered any more
	const few = 10
	if last {
		n = e.observed - min(kept, few)
	}
	if n > e.observed { // the number is of a process before a restart, or of another one
		n = 0
	}
	tail := &Tail{Events: []Happened{}, Skipped: first - min(n, first)}
	n = max(n, first)
	tail.Next = min(e.observed, n+mostEvents)
	for ; n < tail.Next; n++ {
		tail.Events = append(tail.Events, e.ring[(uint64(e.begin)+n-first)%kept])
	}
	return tail
}
