package idemotel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// A service would export its metrics to Prometheus or OTLP. The example collects metrics
// by hand, and keeps spans in memory.
func Example() {
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
	observer, err := idemotel.New(
		idemotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		idemotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))),
	)
	if err != nil {
		panic(err)
	}
	engine, err := core.New(memstore.New(), core.SharedScope, core.WithObserver(observer))
	if err != nil {
		panic(err)
	}
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux := http.NewServeMux()
	mux.Handle("POST /payments", engine.Handler(pay, policy.TTLHours(48)))

	for _, body := range []string{`{"amount":1999}`, `{"amount":1999}`, `{"amount":1}`} { // a retry, and a reused key
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "8e03978e")
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}

	var measured metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &measured); err != nil {
		panic(err)
	}
	for _, metric := range measured.ScopeMetrics[0].Metrics {
		if sum, ok := metric.Data.(metricdata.Sum[int64]); ok {
			for _, point := range sum.DataPoints {
				result, _ := point.Attributes.Value("idempotency.result")
				fmt.Println(metric.Name, result.AsString(), point.Value)
			}
		}
	}
	for _, span := range spans.GetSpans() {
		for _, attribute := range span.Attributes {
			if attribute.Key == "idempotency.result" {
				fmt.Printf("span %q: %s\n", span.Name, attribute.Value.AsString())
			}
		}
	}
	// Unordered output:
	// idempotency.requests execute 1
	// idempotency.requests replay 1
	// idempotency.requests key_reused 1
	// idempotency.conflicts key_reused 1
	// idempotency.settlements completed 1
	// idempotency.running  0
	// span "idempotency POST /payments": completed
	// span "idempotency POST /payments": replay
	// span "idempotency POST /payments": key_reused
}
