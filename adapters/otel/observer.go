package idemotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekey/oncekey/core/event"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/oncekey/oncekey/adapters/otel"

var _ event.Observer = (*Observer)(nil)

// Observer turns events into metrics and spans. One Observer can serve any number of
// engines. Give all engines of a process the same one: of several with one meter provider,
// the SDK reads the gauges of the first alone. An Observer is safe for concurrent use and
// needs no Close: the providers flush its data.
type Observer struct {
	meters      metric.MeterProvider
	tracers     trace.TracerProvider
	next        event.Observer // or nil
	readings    readings
	tracer      trace.Tracer
	instruments instruments
	series      seriesCache
	running     runs // from the handler's begin
	pending     runs // whose settlement the store has not accepted
}

// Option changes an Observer's defaults.
type Option func(*Observer) error

// option sets a value, and refuses nil with an advice.
func option(isNil bool, refusal string, set func(*Observer)) Option {
	return func(o *Observer) error {
		if isNil {
			return errors.New("idemotel: " + refusal + ", or leave the option out")
		}
		set(o)
		return nil
	}
}

// WithMeterProvider takes the instruments from provider. Default the global provider,
// which a program may also set after New.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return option(provider == nil, "WithMeterProvider is given nil: give a provider", func(o *Observer) { o.meters = provider })
}

// WithTracerProvider takes the tracer from provider. The provider of package trace/noop
// turns spans off. Default the global provider, which a program may also set after New.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return option(provider == nil, "WithTracerProvider is given nil: give a provider", func(o *Observer) {
		o.tracers = provider
	})
}

// WithNext passes every event on to next. An engine has one observer, and an Observer of
// this package takes the place of the engine's log: use event.Log(nil) as next to keep
// the log. Default none.
func WithNext(next event.Observer) Option {
	return option(next == nil, "WithNext is given nil: give an observer", func(o *Observer) { o.next = next })
}

// WithRecords adds the gauge idempotency.store.records, the number of records in the
// program's store. The provider calls count at each collection, so count must be cheap and
// safe for concurrent use, as memstore.Store.Len is. A panic of count is an error of the
// collection. Default no gauge.
func WithRecords(count func() int) Option {
	return option(count == nil, "WithRecords is given nil: give a function, such as memstore.Store.Len", func(o *Observer) {
		o.readings.records = func() int64 { return int64(count()) }
	})
}

// WithWaiting adds the gauge idempotency.waiting, the number of requests that wait for the
// response of a concurrent one (policy.Wait). The provider calls count at each collection:
// give a function that calls core.Engine.Waiting, because the engine is made after its
// observer. A panic of count is an error of the collection. Default no gauge.
func WithWaiting(count func() int) Option {
	return option(count == nil, "WithWaiting is given nil: give a function that calls core.Engine.Waiting", func(o *Observer) {
		o.readings.waiting = func() int64 { return int64(count()) }
	})
}

// WithSwept adds the counter idempotency.store.swept, the number of expired records that
// sweeps of this process have removed. The provider calls count at each collection: give the
// Load of the number that pgstore.CountSwept or sqlstore.CountSwept adds to. A panic of count
// is an error of the collection. Default no counter.
func WithSwept(count func() int64) Option {
	return option(count == nil, "WithSwept is given nil: give a function, such as the Load of the number of pgstore.CountSwept",
		func(o *Observer) { o.readings.swept = count })
}

// New returns an observer for core.WithObserver. The error comes from an option, or from
// the meter for an instrument.
func New(opts ...Option) (*Observer, error) {
	o := &Observer{
		meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(),
		series:  seriesCache{known: make(map[labels]*series)},
		running: runs{begins: beginsRun, by: make(map[*event.Subject]begun)},
		pending: runs{begins: isPending, by: make(map[*event.Subject]begun)},
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("idemotel: option %d of New is nil: leave it out", i+1)
		}
		if err := opt(o); err != nil {
			return nil, err
		}
	}
	all, err := newInstruments(o.meters.Meter(scope), &o.running, &o.pending, &o.readings)
	if err != nil {
		return nil, fmt.Errorf("idemotel: make the instruments: %w", err)
	}
	o.instruments, o.tracer = all, o.tracers.Tracer(scope)
	return o, nil
}

// Observe implements event.Observer. It also counts events with an ended ctx. It blocks
// only where the providers' own processors block. It makes at most 8 allocations for a
// request that is not sampled, and 14 for a sampled request.
func (o *Observer) Observe(ctx context.Context, event event.Event) {
	effects := effectsOf(event.Result)
	known := o.series.of(labelsOf(&event, effects))
	effects = effects.of(&event)

	o.count(ctx, effects, known)
	o.time(ctx, &event, effects, known)
	o.running.observe(ctx, event.Subject, effects, known)
	o.pending.observe(ctx, event.Subject, effects, known)
	o.trace(ctx, &event, effects, known)
	if o.next != nil {
		o.next.Observe(ctx, event)
	}
}

func (o *Observer) count(ctx context.Context, effects effect, s *series) {
	for _, one := range o.instruments.counters {
		if effects.has(one.counts) {
			one.Add(ctx, 1, s.counted...)
		}
	}
}

func (o *Observer) time(ctx context.Context, event *event.Event, effects effect, s *series) {
	if effects.has(isDecision) {
		o.instruments.decision.Record(ctx, event.Duration.Seconds(), s.decided...)
	}
	if effects.has(endsRun) {
		o.instruments.run.Record(ctx, event.Duration.Seconds(), s.timed...)
	}
	if event.StoreLatency > 0 { // zero: the step made no store call
		o.instruments.store.Record(ctx, event.StoreLatency.Seconds(), s.timed...)
	}
}
