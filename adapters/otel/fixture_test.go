package idemotel_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// telemetry collects the metrics and spans of a test.
type telemetry struct {
	testing.TB
	reader   *sdkmetric.ManualReader
	spans    *tracetest.SpanRecorder
	tracing  *sdktrace.TracerProvider
	observer *idemotel.Observer
}

func newTelemetry(t testing.TB, opts ...idemotel.Option) *telemetry {
	t.Helper()
	seen := &telemetry{TB: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(seen.reader))
	seen.tracing = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen.spans))
	opts = append([]idemotel.Option{idemotel.WithMeterProvider(meters), idemotel.WithTracerProvider(seen.tracing)}, opts...)
	observer, err := idemotel.New(opts...)
	testkit.Must(t, err)
	seen.observer = observer
	return seen
}

// collect returns the metrics by name.
func (m *telemetry) collect() map[string]metricdata.Metrics {
	m.Helper()
	var all metricdata.ResourceMetrics
	testkit.Must(m, m.reader.Collect(context.Background(), &all))
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			byName[metric.Name] = metric
		}
	}
	return byName
}

// points returns the values of a metric by attributes: sums, and the counts of
// histograms.
func points(metric metricdata.Metrics) map[attribute.Set]int64 {
	all := make(map[attribute.Set]int64)
	switch data := metric.Data.(type) {
	case metricdata.Sum[int64]:
		for _, point := range data.DataPoints {
			all[point.Attributes] = point.Value
		}
	case metricdata.Histogram[float64]:
		for _, point := range data.DataPoints {
			all[point.Attributes] = int64(point.Count)
		}
	}
	return all
}

// want compares the values of a metric by result, without zeros.
func (m *telemetry) want(name string, want map[event.Result]int64) {
	m.Helper()
	got := make(map[event.Result]int64)
	for attributes, value := range points(m.collect()[name]) {
		result, _ := attributes.Value("idempotency.result")
		got[event.Result(result.AsString())] += value
	}
	maps.DeleteFunc(got, func(_ event.Result, n int64) bool { return n == 0 })
	if !maps.Equal(got, want) {
		m.Errorf("%s is %v, want %v", name, got, want)
	}
}

// wantTotal compares the sum of a metric over all its attributes.
func (m *telemetry) wantTotal(name string, want int64) {
	m.Helper()
	testkit.Equal(m, m.total(name), want, "%s in all", name)
}

// wantSpans compares the number of spans that have ended.
func (m *telemetry) wantSpans(want int) {
	m.Helper()
	if all := m.ended(); len(all) != want {
		m.Errorf("%d spans have ended, want %d: %v", len(all), want, all)
	}
}

// wantTimed compares the number of values in a histogram that has no result.
func (m *telemetry) wantTimed(name string, want int64) {
	m.Helper()
	m.wantTotal(name, want)
	for attributes := range points(m.collect()[name]) {
		if attributes.HasValue("idempotency.result") {
			m.Errorf("%s has the result %v: each result multiplies its series by its boundaries", name, attributes.ToSlice())
		}
	}
}

// wantAge compares the age of the oldest pending settlement, to the second.
func (m *telemetry) wantAge(want time.Duration) {
	m.Helper()
	gauge, _ := m.collect()["idempotency.settlement.pending.age"].Data.(metricdata.Gauge[float64])
	if len(gauge.DataPoints) != 1 {
		m.Fatalf("%d values, want one", len(gauge.DataPoints))
	}
	if got := time.Duration(gauge.DataPoints[0].Value * float64(time.Second)).Round(time.Second); got != want {
		m.Errorf("the oldest pending settlement has waited %s, want %s", got, want)
	}
}

// total is the sum of a metric over all its attributes.
func (m *telemetry) total(name string) (sum int64) {
	m.Helper()
	for _, value := range points(m.collect()[name]) {
		sum += value
	}
	return sum
}

// values returns all values of an attribute on any metric.
func (m *telemetry) values(name attribute.Key) []string {
	m.Helper()
	all := make(map[string]bool)
	for _, metric := range m.collect() {
		for attributes := range points(metric) {
			if value, ok := attributes.Value(name); ok {
				all[value.String()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// ended returns the spans of this package that have ended, oldest first.
func (m *telemetry) ended() []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(m.spans.Ended(), func(span sdktrace.ReadOnlySpan) bool {
		return span.InstrumentationScope().Name != "github.com/oncekey/oncekey/adapters/otel"
	})
}

// details returns a span's attributes by name.
func details(attributes []attribute.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, one := range attributes {
		all[string(one.Key)] = one.Value.String()
	}
	return all
}

// service is an engine with telemetry and guarded routes.
type service struct {
	*telemetry
	engine *core.Engine
	mux    *http.ServeMux
}

func newService(t testing.TB, store storage.Store, opts ...core.Option) *service {
	t.Helper()
	s := &service{telemetry: newTelemetry(t), mux: http.NewServeMux()}
	engine, err := core.New(store, core.ScopeBy(bearer), append(opts, core.WithObserver(s.observer))...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Abort(engine) }) // background work ends with the test
	s.engine = engine
	return s
}

// newPayments is a service with POST /payments.
func newPayments(t testing.TB, store storage.Store, handle http.HandlerFunc, opts ...policy.Option) *service {
	t.Helper()
	s := newService(t, store)
	s.guard("POST /payments", handle, opts...)
	return s
}

// newEverything returns a service with a payment whose observer has seen each result, during
// a run that ends with the test.
func newEverything(t *testing.T) *service {
	t.Helper()
	s := newPayments(t, memstore.New(), created)
	s.post(t.Context(), "/payments", "k", "1")
	begin := s.engine.Begin(t.Context(), s.engine.MustRoute(), core.Request{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k"})
	subject := new(event.Subject)
	for _, result := range results(t) {
		s.observer.Observe(begin.Run.Context(), event.Event{Result: result, Subject: subject, Duration: time.Second, StoreLatency: time.Second})
	}
	t.Cleanup(func() { _ = s.engine.Finish(begin.Run, failure.Outcome{}, core.Response{}) })
	return s
}

func (s *service) guard(pattern string, handle http.HandlerFunc, opts ...policy.Option) {
	s.mux.Handle(pattern, s.engine.Handler(handle, opts...))
}

// post sends a payment under a key.
func (s *service) post(ctx context.Context, path, key, body string) {
	r := testkit.Post(ctx, path, key, body)
	r.Header.Set("Authorization", "Bearer secret-scope")
	testkit.Serve(s.mux, r)
}

func bearer(r *http.Request) (string, error) {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), nil
}

func created(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

// advance lets d pass in a synctest bubble, where it takes no time.
func advance(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's clock, not the machine's

var errStoreDown = errors.New("connection refused")

// newBrokenStore returns a store whose calls a test can make fail.
func newBrokenStore() *testkit.Faulty { return brokenOver(memstore.New()) }

// brokenOver takes a millisecond for a settlement, the least in a server.
func brokenOver(store storage.Store) *testkit.Faulty {
	return &testkit.Faulty{Store: store, Before: func(method testkit.Method) {
		if method == testkit.Complete || method == testkit.Release {
			advance(time.Millisecond)
		}
	}}
}

// transactions makes a store whose commits fail.
type transactions struct{ *testkit.Faulty }

func (s transactions) BeginTransaction(ctx context.Context, _ storage.Lease) (context.Context, storage.Transaction, error) {
	return ctx, failingCommit{}, nil
}

type failingCommit struct{}

func (failingCommit) Commit(context.Context, storage.Lease, storage.Result) error {
	return errStoreDown
}
func (failingCommit) Rollback(context.Context) error { return nil }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
