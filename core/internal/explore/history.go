package explore

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Kind is the kind of a Fact.
type Kind uint8

// The kinds of a Fact.
const (
	Sent     Kind = iota // a client sends its request
	Left                 // the client disconnects
	Shown                // the response leaves the pod, and reaches its client
	Unshown              // the response reaches no client
	Started              // a handler starts
	Ran                  // a handler's step
	Broke                // a callback panics
	Took                 // an effect, Source says in which lane
	Stopped              // a handler ends
	Called               // a call at the store begins
	Applied              // the store applies the call
	Returned             // the call returns to the engine
	Observed             // an event
	Closing              // Shutdown begins
	Closed               // Shutdown returns
	Holds                // the store's record at the end
	Stepped              // the function of step N runs to its end
	Recorded             // core.Step returns the result of step N, Source is the request that made it
	Operated             // operation N begins its change of an attempt
	LookedUp             // the store shows operation N a record
	Changed              // the store carries operation N out
	Handled              // operation N ends
	Entered              // the function of step N begins
	Inquired             // reconciler N claims a key for a question
	Asked                // the FindFunc of reconciler N is called
	Answered             // the FindFunc returns
	Rested               // reconciler N ends
)

// Fact is one line of a history.
type Fact struct {
	At           time.Duration
	Pod, Request int
	Kind         Kind
	Inner        bool // the fact belongs to the call of core.Do inside the handler
	Key          int
	Op           Op
	N            int
	Attempt      uint64
	Status       int
	Flags        Flags
	// Life counts how often the store has deleted the key's expired record.
	Life int
	// Source is the request that made the response, or whose lease was taken over.
	Source int
	// Since is when the response began to leave, or when Shutdown began.
	Since time.Duration
	Err   error
	Text  string
}

// Flags are details of a Fact.
type Flags uint32

// The flags.
const (
	Replayed    Flags = 1 << iota
	Problem           // the response is the engine's own
	Guarded           // the handler runs under a lease
	Careful           // the handler checked its context before the effect
	Executed          // the handler marked itself executed
	Retryable         // the handler marked itself retryable
	Panicked          // the handler panicked
	Silent            // the handler wrote no response, and its context had ended
	Streamed          // the response went out before the handler ended
	Granted           // the store gave a lease
	TookOver          // the lease is of an abandoned key
	Faulty            // a fault of the plan hit the call
	Probing           // the request is the judge's own at the end
	Stopping          // the handler found its context ended
	Waited            // the handler waited in vain for the end of its context
	InTx              // the effect counts at the commit of its transaction
	Uncertain         // the handler marked its outcome as uncertain
	DuringStep        // the handler ended during a step
	NewerSteps        // the lease has steps of a newer version
	Reconciling       // the event is of reconciler N
)

// equals reports whether two facts show the same response.
func (f *Fact) equals(g *Fact) bool {
	return f.Source == g.Source && f.Status == g.Status && f.Text == g.Text
}

func (f *Fact) has(flags Flags) bool { return f.Flags&flags == flags }

// History is the list of events in one schedule, in order.
type History struct {
	Facts []*Fact
	// Stuck is why the bubble could not end, or "".
	Stuck string
}

// log collects facts from all goroutines of a bubble.
type log struct {
	mu    sync.Mutex
	start time.Time
	facts []*Fact
}

func (l *log) add(f Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.At = time.Since(l.start)
	l.facts = append(l.facts, &f)
}

// sorted returns the facts by time. Goroutines that run in the same instant take
// turns in any order, so facts of one instant are sorted by pod and request. Only one
// goroutine per request runs in an instant, so the facts of a request stay in order.
func (l *log) sorted() []*Fact {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.facts, func(a, b *Fact) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Request, b.Request),
			cmp.Compare(bit(a.Inner), bit(b.Inner)))
	})
	return l.facts
}

// bit is 1 for true.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
