package idemotel

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/oncekey/oncekey/core/event"
)

// maxRuns bounds the counted runs in one state, far above the runs of one process. Further
// runs are not counted.
const maxRuns = 1 << 18

// runs count the runs in one state. All events of a request have the same Subject.
type runs struct {
	gauge  metric.Int64UpDownCounter
	begins effect       // of an event that begins the state; endsRun ends it
	n      atomic.Int64 // len(by), of the pending runs nearly always zero, for reads without the lock
	mu     sync.Mutex
	by     map[*event.Subject]begun
}

// begun is the beginning of a run's state.
type begun struct {
	*series // that counted it
	at      time.Time
}

// observe counts the beginning or the end of a run's state. A run that began before the
// Observer saw its events, or that a RecoverFunc ended without its handler, has no beginning
// to match.
func (r *runs) observe(ctx context.Context, subject *event.Subject, effects effect, s *series) {
	if effects.has(r.begins) && r.add(subject, s) {
		r.gauge.Add(ctx, 1, s.placed...)
	}
	if effects.has(endsRun) && r.n.Load() > 0 {
		if found, known := r.remove(subject); known {
			r.gauge.Add(ctx, -1, found.placed...)
		}
	}
}

// add returns false for a known run, and where the table is full.
func (r *runs) add(subject *event.Subject, s *series) bool {
	if subject == nil { // an event that a test of the program made
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.by[subject]; known || len(r.by) >= maxRuns {
		return false
	}
	r.by[subject] = begun{s, time.Now()}
	r.n.Store(int64(len(r.by)))
	return true
}

func (r *runs) remove(subject *event.Subject) (found begun, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, known = r.by[subject]
	delete(r.by, subject)
	r.n.Store(int64(len(r.by)))
	return found, known
}

// age returns the time since the oldest run is in the state, or zero without one.
func (r *runs) age() (oldest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, run := range r.by {
		oldest = max(oldest, time.Since(run.at))
	}
	return oldest
}
