package idemotel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

func TestNewRefusesNil(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]idemotel.Option{
		"WithMeterProvider":  idemotel.WithMeterProvider(nil),
		"WithTracerProvider": idemotel.WithTracerProvider(nil),
		"WithNext":           idemotel.WithNext(nil),
		"WithRecords":        idemotel.WithRecords(nil),
		"WithWaiting":        idemotel.WithWaiting(nil),
		"WithSwept":          idemotel.WithSwept(nil),
	} {
		observer, err := idemotel.New(option)
		if observer != nil || err == nil || !strings.Contains(err.Error(), name+" is given nil") {
			t.Errorf("%s(nil): got %v, %v, want an error that names it", name, observer, err)
		}
	}
	if _, err := idemotel.New(idemotel.WithNext(event.Log(nil)), nil); err == nil || !strings.Contains(err.Error(), "option 2 of New is nil") {
		t.Errorf("a nil option: got %v, want an error that names it", err)
	}
}

// brokenMeters is a provider whose meter makes no instruments.
type brokenMeters struct{ metricnoop.MeterProvider }

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ metricnoop.Meter }

var errNoInstrument = errors.New("no such instrument")

func (brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errNoInstrument
}

func TestNewReturnsTheMetersError(t *testing.T) {
	t.Parallel()
	observer, err := idemotel.New(idemotel.WithMeterProvider(brokenMeters{}))
	if observer != nil || !errors.Is(err, errNoInstrument) {
		t.Errorf("got %v, %v, want the meter's error", observer, err)
	}
}

// instrument is how a metric is described.
type instrument struct{ kind, unit string }

// Names and units are an interface too: dashboards use both.
func TestInstruments(t *testing.T) {
	t.Parallel()
	s := newEverything(t)
	all := s.collect()
	for name, want := range map[string]instrument{
		"idempotency.requests":          {"counter", "{request}"},
		"idempotency.conflicts":         {"counter", "{request}"},
		"idempotency.settlements":       {"counter", "{settlement}"},
		"idempotency.lease.expired":     {"counter", "{lease}"},
		"idempotency.lease.renewals":    {"counter", "{renewal}"},
		"idempotency.store.errors":      {"counter", "{error}"},
		"idempotency.decision.duration": {"histogram", "s"},
		"idempotency.run.duration":      {"histogram", "s"},
		"idempotency.store.duration":    {"histogram", "s"},

		"idempotency.running":                {"up-down counter", "{run}"},
		"idempotency.settlement.pending":     {"up-down counter", "{settlement}"},
		"idempotency.settlement.pending.age": {"gauge", "s"},
	} {
		kind, _ := pointsOf(all[name].Data)
		got := instrument{kind, all[name].Unit}
		if data, is := all[name].Data.(metricdata.Histogram[float64]); is {
			if bounds := data.DataPoints[0].Bounds; !slices.IsSorted(bounds) || bounds[len(bounds)-1] < 10 {
				t.Errorf("%s has the boundaries %v, want seconds", name, bounds)
			}
		}
		if got != want || all[name].Description == "" {
			t.Errorf("%s is %+v, %q, want %+v and a description", name, got, all[name].Description, want)
		}
		delete(all, name)
	}
	for name := range all {
		t.Errorf("%s is not in the list", name)
	}
}

// remembered is an Observer that keeps the last event.
type remembered struct {
	context context.Context
	event   event.Event
}

func (r *remembered) Observe(ctx context.Context, event event.Event) { r.context, r.event = ctx, event }

// The next observer, such as a log, gets the events unchanged.
func TestNextObserverGetsTheEvent(t *testing.T) {
	t.Parallel()
	var next remembered
	seen := newTelemetry(t, idemotel.WithNext(&next))
	seen.observer.Observe(t.Context(), event.Event{Result: event.Replay, Attempt: 7})
	if next.context != t.Context() || next.event.Result != event.Replay || next.event.Attempt != 7 {
		t.Errorf("got %+v", next.event)
	}
}

// early is made before the program sets its providers, like a package's variables.
var early, errEarly = idemotel.New()

// globals sets the global providers. otel forwards the earlier providers to them once.
var globals = sync.OnceValue(func() *telemetry {
	seen := &telemetry{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(seen.reader)))
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen.spans)))
	return seen
})

// Without options the observer uses the global providers, set before or after New.
func TestGlobalProviders(t *testing.T) { //nolint:paralleltest // it sets the global providers
	if errEarly != nil {
		t.Fatal(errEarly)
	}
	early.Observe(t.Context(), event.Event{Result: event.Refused}) // without providers, the event is lost
	seen := globals()
	seen.TB = t
	late, err := idemotel.New()
	testkit.Must(t, err)
	requests, spans := seen.total("idempotency.requests"), len(seen.ended())
	early.Observe(t.Context(), event.Event{Result: event.Replay})
	late.Observe(t.Context(), event.Event{Result: event.Replay})
	testkit.Equal(t, seen.total("idempotency.requests")-requests, 2, "requests that are counted")
	testkit.Equal(t, len(seen.ended())-spans, 2, "spans")
}

// Dashboards use metrics with their kinds, units and attributes: each of a released version stays.
func TestGoldenMetrics(t *testing.T) {
	t.Parallel()
	s := newEverything(t)
	var today []string
	for name, metric := range s.collect() {
		kind, sets := pointsOf(metric.Data)
		name += " " + kind + " " + metric.Unit
		today = append(today, name)
		for _, set := range sets {
			for _, one := range set.ToSlice() {
				today = append(today, name+" by "+string(one.Key))
			}
		}
	}
	golden.Names(t, "metrics.jsonl", today)
}

// pointsOf returns the kind of a metric, and the attributes of its points.
func pointsOf(data metricdata.Aggregation) (kind string, sets []attribute.Set) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
		return map[bool]string{true: "counter", false: "up-down counter"}[data.IsMonotonic], sets
	case metricdata.Gauge[float64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
		return "gauge", sets
	case metricdata.Histogram[float64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
		return "histogram", sets
	}
	return "other", nil
}
