package core

import (
	"time"

	"github.com/oncekey/oncekey/core/internal/ledger"
)

// Running is a run of this process that has not ended, see Engine.Running.
type Running struct {
	// Record is the storage key.
	Record string
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

func snapshot(hold *ledger.Hold) Running {
	since, left, unsettled := hold.Ages()
	return Running{
		Record: hold.Lease.Key, Endpoint: Endpoint{runOf(hold).identity.request.Method, hold.Pattern("")}, Attempt: hold.Lease.Attempt,
		For: since, LeaseLeft: left, Waiting: int(hold.Waiting.Load()), Unsettled: unsettled,
	}
}
