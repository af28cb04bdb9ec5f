package idemotel

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

// maxPending is far above what an engine lets wait (core.WithMaxUnsettled): more
// are not counted.
const maxPending = 1 << 16

// pendingRuns are the runs that are being settled in the background. Their last
// event looks like any other run's, so they are known by their lease's token.
type pendingRuns struct {
	n  atomic.Int64 // len(by), to be read without the lock: it is nearly always zero
	mu sync.Mutex
	by map[storage.Token]*series // the series that counted the run's beginning
}

// add reports whether the run was not known yet, and is now.
func (p *pendingRuns) add(ctx context.Context, s *series) bool {
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[lease.Token] != nil || len(p.by) >= maxPending {
		return false
	}
	p.by[lease.Token] = s
	p.n.Store(int64(len(p.by)))
	return true
}

// find returns the series that counted the run in, or nil.
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
	return p.by[lease.Token]
}

// remove forgets the run of ctx.
func (p *pendingRuns) remove(ctx context.Context) {
	lease, _ := core.LeaseFrom(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, lease.Token)
	p.n.Store(int64(len(p.by)))
}
