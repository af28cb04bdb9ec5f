package idemotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are this package's metrics.
type instruments struct {
	requests, conflicts, settlements metric.Int64Counter
	leaseExpired, storeErrors        metric.Int64Counter
	pending                          metric.Int64UpDownCounter
	decision, run, store             metric.Float64Histogram
}

// The boundaries, in seconds. Where the semantic conventions advise some (5 ms to
// 10 s for HTTP requests, 1 ms to 10 s for calls at a database), these have them,
// and go beyond at the end where a policy's defaults lie.
var (
	// Most decisions are one round trip at the store; those of a policy with a
	// Wait take as long as the client is patient.
	decisionBounds = []float64{.001, .0025, .005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30}
	// A run is as long as its handler: past LockTTL (30 s) it was renewed, and
	// MaxRun (15 min) ends it.
	runBounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 900}
	// Redis answers in a quarter of a millisecond when it is near. The StoreTimeout
	// (500 ms) bounds a step, and a settlement may take two.
	storeBounds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10}
)

func newInstruments(meter metric.Meter) (instruments, error) {
	var all instruments
	var failed error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		failed = errors.Join(failed, err)
		return c
	}
	histogram := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(bounds...))
		failed = errors.Join(failed, err)
		return h
	}
	all.requests = counter("idempotency.requests", "{request}", "Requests of guarded routes, by what was decided.")
	all.conflicts = counter("idempotency.conflicts", "{request}", "Requests that were answered with 409 or 422.")
	all.settlements = counter("idempotency.settlements", "{settlement}", "What became of runs, by result.")
	all.leaseExpired = counter("idempotency.lease.expired", "{lease}", "Abandoned attempts that were seen.")
	all.storeErrors = counter("idempotency.store.errors", "{error}", "Failed calls at the store.")
	all.decision = histogram("idempotency.decision.duration", "Time from a request's admission to its decision.", decisionBounds)
	all.run = histogram("idempotency.run.duration", "Time from a request's admission to its run's last settlement.", runBounds)
	all.store = histogram("idempotency.store.duration", "Time of waiting for the store in one step.", storeBounds)

	pending, err := meter.Int64UpDownCounter("idempotency.settlement.pending", metric.WithUnit("{settlement}"),
		metric.WithDescription("Runs whose settlement the store has not taken yet."))
	all.pending = pending
	return all, errors.Join(failed, err)
}
