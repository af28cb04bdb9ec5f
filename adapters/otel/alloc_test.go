package idemotel_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// observedEvents returns the events of a request that replays, on a route with
// this pattern, as the engine makes them.
func observedEvents(tb testing.TB, pattern string) (all []event.Event) {
	tb.Helper()
	s := newService(tb, memstore.New())
	engine, err := core.New(memstore.New(), core.SharedScope, core.WithObserver(collector{&all}))
	testkit.Must(tb, err)
	s.mux.Handle(pattern, engine.Handler(http.HandlerFunc(created)))
	s.post(context.Background(), "/payments", "k", "1")
	s.post(context.Background(), "/payments", "k", "1")
	return all[len(all)-1:]
}

type collector struct{ all *[]event.Event }

func (c collector) Observe(_ context.Context, event event.Event) { *c.all = append(*c.all, event) }

// setups are observers with their allowed allocations per event.
func setups(tb testing.TB) []setup {
	tb.Helper()
	meters := idemotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
	noMeters := idemotel.WithMeterProvider(metricnoop.NewMeterProvider())
	noTracers := idemotel.WithTracerProvider(tracenoop.NewTracerProvider())
	tracers := idemotel.WithTracerProvider(sdktrace.NewTracerProvider())
	never := idemotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))
	return []setup{
		{"neither metrics nor spans", "POST /payments", []idemotel.Option{noMeters, noTracers}, 6},
		{"metrics", "POST /payments", []idemotel.Option{meters, noTracers}, 6},
		{"metrics, a pattern without the method", "/payments", []idemotel.Option{meters, noTracers}, 8},
		{"metrics, spans that are not sampled", "POST /payments", []idemotel.Option{meters, never}, 8},
		{"metrics and spans", "POST /payments", []idemotel.Option{meters, tracers}, 14},
	}
}

type setup struct {
	name, pattern string
	options       []idemotel.Option
	most          float64
}

func (s setup) observer(tb testing.TB) (*idemotel.Observer, event.Event) {
	tb.Helper()
	observer, err := idemotel.New(s.options...)
	testkit.Must(tb, err)
	event := observedEvents(tb, s.pattern)[0]
	event.StoreLatency = time.Millisecond
	return observer, event
}

// The allocations of an event stay within the limits that Observe documents. Tests of
// core measure the guard's own cost.
func TestAllocations(t *testing.T) { //nolint:paralleltest // parallel tests would allocate in between
	testkit.NeedsNoRaceDetector(t)
	for _, s := range setups(t) {
		observer, event := s.observer(t)
		ctx := context.Background()
		got := testing.AllocsPerRun(1000, func() { observer.Observe(ctx, event) })
		t.Logf("%s: %v allocations", s.name, got)
		if got > s.most {
			t.Errorf("%s: an event makes %v allocations, want at most %v", s.name, got, s.most)
		}
	}
}
