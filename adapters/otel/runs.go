package idemotel

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// maxPending bounds the counted runs, far above an engine's limit of pending runs
// (core.WithMaxUnsettled). Further runs are not counted.
const maxPending = 1 << 16

// pendingRuns are the runs that the engine settles in the background. The last event of
// such a run looks like that of any other run, so the lease's token identifies the run.
type pendingRuns struct {
	n  atomic.Int64 // len(by), nearly always zero, for reads without the lock
	mu sync.Mutex
	by map[storage.Token]pendingRun
}

// pendingRun is one run whose settlement is pending.
type pendingRun struct {
	*series // that counted the run's beginning
	since   time.Time
}

// add adds the run of ctx. It returns false for a known run or a full table.
func (p *pendingRuns) add(ctx context.Context, s *series) bool {
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[lease.Token].series != nil || len(p.by) >= maxPending {
		return false
	}
	p.by[lease.Token] = pendingRun{s, time.Now()}
	p.n.Store(int64(len(p.by)))
	return true
}

// find returns the series that counted the run's beginning, or nil.
func (p *pendingRuns) find(ctx context.Context) *series {
	if p.n.Load() == 0 {
		return nil
	}
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[lease.Token].series
}

// age returns the time since the oldest run became pending, or zero without one.
func (p *pendingRuns) age() (oldest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, run := range p.by {
		oldest = max(oldest, time.Since(run.since))
	}
	return oldest
}

// remove deletes the run of ctx.
func (p *pendingRuns) remove(ctx context.Context) {
	lease, _ := core.LeaseFrom(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, lease.Token)
	p.n.Store(int64(len(p.by)))
}

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
