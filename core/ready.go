package core

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// Ready returns nil when this process can serve guarded requests: the engine does not shut
// down, not too many responses wait for the store, and the store can be reached and grants
// every right that serving needs (see storage.Checker; a store without a Check counts as
// ready). Otherwise the error names the reason. Call Ready in a readiness probe, with a
// ctx that has a deadline.
func (e *Engine) Ready(ctx context.Context) error {
	switch _, refusal := e.ledger.Find(new([sha256.Size]byte)); refusal {
	case problem.ShuttingDown:
		return fmt.Errorf("%w: the engine shuts down", ErrUnavailable)
	case problem.StoreUnavailable:
		return fmt.Errorf("%w: %d responses wait for the store", ErrUnavailable, e.ledger.MaxUnsettled())
	}
	return e.checkStore(ctx)
}

func (e *Engine) checkStore(ctx context.Context) (err error) {
	defer panicked.ToError("Store", &err)
	if checker, ok := e.ledger.Store().(storage.Checker); ok {
		err = checker.Check(ctx)
	}
	return err
}

// Running is a run of this process that has not ended, see Engine.Running.
type Running struct {
	// Key is the storage key.
	Key string
	// Endpoint is the request's method and the route's pattern. The pattern is empty
	// while it is not known.
	Endpoint Endpoint
	Attempt  uint64
	// For is the time since the claim, and LeaseLeft the rest of the lease by the clock
	// of this process.
	For, LeaseLeft time.Duration
	// Waiting is the number of requests of this process that wait for this run
	// (policy.Wait).
	Waiting int
	// Unsettled is the time for which the run's result waits for the store. Zero: the
	// handler runs, or its result is just being stored.
	Unsettled time.Duration
}

// Running returns the runs of this process that have not ended: those with a running
// handler, and those with a result that waits for the store. The longest come first.
func (e *Engine) Running() []Running {
	holds := e.ledger.All()
	all := make([]Running, 0, len(holds))
	for _, hold := range holds {
		all = append(all, snapshot(hold))
	}
	slices.SortFunc(all, func(a, b Running) int { return cmp.Compare(b.For, a.For) })
	return all
}

func snapshot(hold *ledger.Hold) Running {
	since, left, unsettled := hold.Ages()
	return Running{
		Key: hold.Lease.Key, Endpoint: Endpoint{runOf(hold).subject.request.Method, hold.Pattern("")}, Attempt: hold.Lease.Attempt,
		For: since, LeaseLeft: left, Waiting: int(hold.Waiting.Load()), Unsettled: unsettled,
	}
}
