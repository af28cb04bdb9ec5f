package idemotel

import (
	"sync"

	"github.com/oncekey/oncekey/core/event"
)

// runningRuns are the runs whose handler has begun and that have not ended. All events of
// a request have the same Subject.
type runningRuns struct {
	mu sync.Mutex
	by map[*event.Subject]*series // the series that counted the run's beginning
}

// add adds a run. It returns false for a known run.
func (r *runningRuns) add(subject *event.Subject, s *series) bool {
	if subject == nil { // an event that a test of the program made
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[subject] != nil {
		return false
	}
	r.by[subject] = s
	return true
}

// remove removes a run, and returns the series that counted its beginning, or nil.
func (r *runningRuns) remove(subject *event.Subject) *series {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := r.by[subject]
	delete(r.by, subject)
	return begun
}
