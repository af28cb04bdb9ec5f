package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// version is that of the program: the label service_version of target_info.
const version = "1.0.0"

// service takes payments and shows its metrics.
type service struct {
	engine   *core.Engine
	meters   *sdkmetric.MeterProvider
	mux      *http.ServeMux
	payments atomic.Int64
}

// newService wires the parts. The engine's events go to the observer, the observer's
// instruments to the meter provider, and Prometheus' handler reads the meter provider. The
// engine still writes its log. A program with traces would pass its TracerProvider to the
// observer, or set the global one. records counts the store's records.
//
// The labels otel_scope_* would be a third of each scrape, and there is one scope.
func newService(store storage.Store, records func() int, options ...core.Option) (*service, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	process := resource.NewSchemaless(attribute.String("service.name", "payments"), attribute.String("service.version", version))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(process))
	observer, err := idemotel.New(idemotel.WithMeterProvider(meters), idemotel.WithNext(event.Log(nil)), idemotel.WithRecords(records))
	if err != nil {
		return nil, err
	}
	engine, err := core.New(store, core.SharedScope, append(options, core.WithObserver(observer))...)
	if err != nil {
		return nil, err
	}
	s := &service{engine: engine, meters: meters, mux: http.NewServeMux()}
	s.guard("POST /payments", s.pay, policy.TTLHours(48))
	s.guard("POST /refunds", s.pay, policy.ObserveOnly(true)) // not guarded yet: only watched
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return s, nil
}

func (s *service) guard(pattern string, handle http.HandlerFunc, opts ...policy.Option) {
	s.mux.Handle(pattern, s.engine.Handler(handle, opts...))
}

// shutDown waits for the responses that the store has not taken yet. The metrics end
// last, to count the results of the shutdown.
func (s *service) shutDown(ctx context.Context) error {
	return errors.Join(s.engine.Shutdown(ctx), s.meters.Shutdown(ctx))
}

// pay takes a payment. ?card=declined, slow, taken and broken show other results of a
// payment.
func (s *service) pay(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Query().Get("card") {
	case "declined":
		http.Error(w, "declined", http.StatusPaymentRequired)
		return
	case "taken":
		failure.MarkRetryable(r.Context(), "another payment is under way")
		http.Error(w, "try again", http.StatusConflict)
		return
	case "broken":
		http.Error(w, "the bank does not respond", http.StatusBadGateway)
		return
	case "slow":
		select {
		case <-time.After(2 * time.Second):
		case <-r.Context().Done(): // the engine writes the response
			return
		}
	}
	failure.MarkExecuted(r.Context())
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "payment %d\n", s.payments.Add(1))
}
