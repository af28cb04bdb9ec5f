package idemotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/oncekey/oncekey/adapters/otel"

var _ event.Observer = (*Observer)(nil)

// Observer measures events. One serves any number of engines. It is safe for
// concurrent use, and has nothing to close: what it has measured is flushed with
// the providers.
type Observer struct {
	meters      metric.MeterProvider
	tracers     trace.TracerProvider
	next        event.Observer // nil when nobody else wants the events
	tracer      trace.Tracer
	instruments instruments
	series      seriesCache
	pending     pendingRuns
}

// Option changes an Observer's defaults.
type Option func(*Observer) error

// WithMeterProvider takes the instruments from provider. Default the global one,
// also when it is set later than New is called.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(o *Observer) error {
		if provider == nil {
			return errors.New("idemotel: WithMeterProvider is given nil: give a provider, or leave the option out")
		}
		o.meters = provider
		return nil
	}
}

// WithTracerProvider takes the tracer from provider. Default the global one, also
// when it is set later than New is called. The provider of package trace/noop
// turns spans off.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(o *Observer) error {
		if provider == nil {
			return errors.New("idemotel: WithTracerProvider is given nil: give a provider, or leave the option out")
		}
		o.tracers = provider
		return nil
	}
}

// WithNext hands every event on to next after it was measured. An engine has one
// observer, and this one takes the place of the engine's log: with
// event.Log(nil) the log goes on. Default: nobody.
func WithNext(next event.Observer) Option {
	return func(o *Observer) error {
		if next == nil {
			return errors.New("idemotel: WithNext is given nil: give an observer, or leave the option out")
		}
		o.next = next
		return nil
	}
}

// New returns an observer for core.WithObserver. The error is an option's, or the
// meter's about an instrument.
func New(opts ...Option) (*Observer, error) {
	o := &Observer{
		meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(),
		series:  seriesCache{known: make(map[labels]*series)},
		pending: pendingRuns{by: make(map[storage.Token]*series)},
	}
	for _, opt := range opts {
		if err := opt(o); err != nil {
			return nil, err
		}
	}
	all, err := newInstruments(o.meters.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("idemotel: make the instruments: %w", err)
	}
	o.instruments, o.tracer = all, o.tracers.Tracer(scope)
	return o, nil
}

// Observe implements event.Observer. It counts events whose ctx has ended, too. It
// waits for nothing but what the providers' own processors wait for, and makes at
// most 8 allocations where the request is not sampled, and 14 where it is.
func (o *Observer) Observe(ctx context.Context, event event.Event) {
	effects := effectsOf(event.Result)
	known := o.series.of(labelsOf(&event, effects))
	begun := o.pending.find(ctx)
	effects = effects.ending(&event, begun != nil)

	o.count(ctx, effects, known)
	o.time(ctx, &event, effects, known)
	o.settle(ctx, effects, known, begun)
	o.trace(ctx, &event, effects, known)
	if o.next != nil {
		o.next.Observe(ctx, event)
	}
}

func (o *Observer) count(ctx context.Context, effects effect, s *series) {
	if effects.has(isDecision) {
		o.instruments.requests.Add(ctx, 1, s.counted...)
	}
	if effects.has(isConflict) {
		o.instruments.conflicts.Add(ctx, 1, s.counted...)
	}
	if effects.has(isSettlement) {
		o.instruments.settlements.Add(ctx, 1, s.counted...)
	}
	if effects.has(isLeaseExpired) {
		o.instruments.leaseExpired.Add(ctx, 1, s.counted...)
	}
	if effects.has(isStoreError) {
		o.instruments.storeErrors.Add(ctx, 1, s.counted...)
	}
}

func (o *Observer) time(ctx context.Context, event *event.Event, effects effect, s *series) {
	if effects.has(isDecision) {
		o.instruments.decision.Record(ctx, event.Duration.Seconds(), s.recorded...)
	}
	if effects.has(endsRun) {
		o.instruments.run.Record(ctx, event.Duration.Seconds(), s.recorded...)
	}
	if event.StoreLatency > 0 { // zero: the store was not asked in this step
		o.instruments.store.Record(ctx, event.StoreLatency.Seconds(), s.recorded...)
	}
}

// settle keeps account of what waits for the store.
func (o *Observer) settle(ctx context.Context, effects effect, s, begun *series) {
	if effects.has(isPending) && o.pending.add(ctx, s) {
		o.instruments.pending.Add(ctx, 1, s.pending...)
	}
	if effects.has(endsRun) && begun != nil {
		o.pending.remove(ctx)
		o.instruments.pending.Add(ctx, -1, begun.pending...)
	}
}
