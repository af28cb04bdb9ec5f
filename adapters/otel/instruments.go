package idemotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// instruments are this package's metrics.
type instruments struct {
	counters             []counter
	decision, run, store metric.Float64Histogram
}

// counter counts the events that have an effect.
type counter struct {
	metric.Int64Counter
	counts effect
}

// The boundaries, in seconds, include those of the semantic conventions (5 ms to 10 s for
// HTTP requests, 1 ms to 10 s for database calls). Larger boundaries cover the defaults of
// a policy.
var (
	// Most decisions are one round trip to the store. With a policy's Wait, a decision
	// may take as long as the Wait.
	decisionBounds = []float64{.001, .0025, .005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30}
	// A run is as long as its handler. After LockTTL (30 s) the lease was renewed, and
	// MaxRun (15 min) ends the run.
	runBounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 900}
	// A nearby Redis responds in a quarter of a millisecond. The StoreTimeout (500 ms)
	// bounds a step, and a settlement may take two steps.
	storeBounds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10}
)

func newInstruments(meter metric.Meter, running, pending *runs, given *readings) (instruments, error) {
	var all instruments
	var failed error
	count := func(counts effect, name, unit, description string) {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		failed = errors.Join(failed, err)
		all.counters = append(all.counters, counter{c, counts})
	}
	histogram := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(bounds...))
		failed = errors.Join(failed, err)
		return h
	}
	count(isDecision, "idempotency.requests", "{request}", "Requests of guarded routes, by decision.")
	count(isConflict, "idempotency.conflicts", "{request}", "Requests with a 409 or 422 response.")
	count(isSettlement, "idempotency.settlements", "{settlement}", "Results of runs.")
	count(isLeaseExpired, "idempotency.lease.expired", "{lease}", "Abandoned attempts that the engine found.")
	count(isRenewal, "idempotency.lease.renewals", "{renewal}", "Renewals of leases whose handlers ran on.")
	count(isStoreError, "idempotency.store.errors", "{error}", "Failed store calls.")
	all.decision = histogram("idempotency.decision.duration", "Time from a request's arrival to its decision.", decisionBounds)
	all.run = histogram("idempotency.run.duration", "Time from a request's arrival to its run's last settlement.", runBounds)
	all.store = histogram("idempotency.store.duration", "Time spent in the store in one step.", storeBounds)

	gauge := func(name, unit, description string) metric.Int64UpDownCounter {
		g, err := meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		failed = errors.Join(failed, err)
		return g
	}
	running.gauge = gauge("idempotency.running", "{run}", "Runs whose handler has begun and that have not ended.")
	pending.gauge = gauge("idempotency.settlement.pending", "{settlement}", "Runs whose settlement the store has not accepted yet.")
	return all, errors.Join(failed, observeGauges(meter, pending.age, given))
}

// readings are functions of the program whose values are read at each collection, or nil.
type readings struct{ records, waiting, swept func() int64 }

// observeGauges makes the instruments that are read at each collection.
func observeGauges(meter metric.Meter, age func() time.Duration, given *readings) error {
	_, failed := meter.Float64ObservableGauge("idempotency.settlement.pending.age", metric.WithUnit("s"),
		metric.WithDescription("Time since the store refused the oldest pending settlement."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(age().Seconds())
			return nil
		}))
	if given.records != nil {
		_, err := meter.Int64ObservableGauge("idempotency.store.records", metric.WithUnit("{record}"),
			metric.WithDescription("Records in the program's store."), reading("WithRecords", given.records))
		failed = errors.Join(failed, err)
	}
	if given.waiting != nil {
		_, err := meter.Int64ObservableGauge("idempotency.waiting", metric.WithUnit("{request}"),
			metric.WithDescription("Requests that wait for the response of a concurrent one."), reading("WithWaiting", given.waiting))
		failed = errors.Join(failed, err)
	}
	if given.swept != nil {
		_, err := meter.Int64ObservableCounter("idempotency.store.swept", metric.WithUnit("{record}"),
			metric.WithDescription("Expired records that sweeps of this process have removed."), reading("WithSwept", given.swept))
		failed = errors.Join(failed, err)
	}
	return failed
}

// reading observes the value of an option's function.
func reading(option string, read func() int64) metric.Int64ObservableOption {
	return metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) (err error) {
		defer func() { // the provider's goroutine has no recover
			if reason := recover(); reason != nil {
				err = fmt.Errorf("idemotel: the function of %s panicked with a value of type %T", option, reason)
			}
		}()
		o.Observe(read())
		return nil
	})
}
