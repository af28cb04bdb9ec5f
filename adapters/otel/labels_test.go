package idemotel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 34: text that a client controls never labels a metric: key, path, scope or an
// invented method.
func TestClientTextLabelsNoMetric(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	guarded := s.engine.Handler(http.HandlerFunc(created), policy.Methods("POST", "SECRET-METHOD"))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = "" // as behind a router that the engine does not know
		if r.Header.Get(core.KeyHeader) == "secret-key-2" {
			r.Method = "SECRET-METHOD"
		}
		guarded.ServeHTTP(w, r)
	})
	s.post(t.Context(), "/secret-path/17", "secret-key-1", "1")
	s.post(t.Context(), "/secret-path/18", "secret-key-2", "1")
	s.post(t.Context(), "/secret-path/19", "secret-key-3", "1")

	testkit.EqualSlices(t, s.values("http.route"), []string{"unmatched"}, "the routes")
	testkit.EqualSlices(t, s.values("http.request.method"), []string{"POST", "_OTHER"}, "the methods")
	for name, metric := range s.collect() {
		for attributes := range points(metric) {
			if text := strings.ToLower(attributes.Encoded(attribute.DefaultEncoder())); strings.Contains(text, "secret") {
				t.Errorf("%s has %s", name, text)
			}
		}
	}
}

// Both labels have the spelling of the HTTP server's own metrics, for every router.
func TestMethodAndRoute(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][2]string{
		"POST /payments/{id}":      {"POST", "/payments/{id}"},
		"POST \t/payments/{id}":    {"POST", "/payments/{id}"},
		"/payments/{id}":           {"POST", "/payments/{id}"},
		"POST example.com/{id...}": {"POST", "/{id...}"},
		"example.com/payments/":    {"POST", "/payments/"},
	} {
		s := newService(t, memstore.New())
		s.mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Pattern = pattern
			s.engine.Handler(http.HandlerFunc(created)).ServeHTTP(w, r)
		}))
		s.post(t.Context(), "/payments/17", "k", "1")
		testkit.EqualSlices(t, s.values("http.request.method"), want[:1], "%q: the method", pattern)
		testkit.EqualSlices(t, s.values("http.route"), want[1:], "%q: the route", pattern)
	}
}

// Calls of tools are measured like requests.
func TestTools(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.Method, r.Pattern = storage.MethodTool, "shop/charge"
		s.engine.Handler(http.HandlerFunc(created), policy.Methods(storage.MethodTool)).ServeHTTP(w, r)
	})
	s.post(t.Context(), "/", "k", "1")
	if method, route := s.values("http.request.method"), s.values("http.route"); !slices.Equal(method, []string{"TOOL"}) || !slices.Equal(route, []string{"shop/charge"}) {
		t.Errorf("method %q, route %q, want TOOL and shop/charge", method, route)
	}
}

// The name of a call is no pattern: the first word of "SQS payments" is not its method.
func TestNameOfACallIsWhole(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SQS payments", "POST /payments", "PAY"} {
		s := newService(t, memstore.New())
		if _, _, err := core.Do(t.Context(), s.engine, core.Call{Scope: "queue", Name: name, Key: "k"}, func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
		if method, route := s.values("http.request.method"), s.values("http.route"); !slices.Equal(method, []string{"CALL"}) || !slices.Equal(route, []string{name}) {
			t.Errorf("method %q, route %q, want CALL and %s", method, route, name)
		}
		if spans := s.ended(); len(spans) != 1 || spans[0].Name() != "idempotency CALL "+name {
			t.Errorf("the spans are %v, want one of CALL %s", spans, name)
		}
	}
}

// Attributes separate observed decisions from enforced decisions.
func TestObservedRoutes(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.guard("POST /watched", created, policy.ObserveOnly(true))
	s.post(t.Context(), "/watched", "k", "1")
	testkit.EqualSlices(t, s.values("idempotency.observed"), []string{"true"}, "observed")
	s.guard("POST /guarded", created)
	s.post(t.Context(), "/guarded", "k", "1")
	testkit.EqualSlices(t, s.values("idempotency.observed"), []string{"false", "true"}, "observed")
	for _, span := range s.ended() {
		if want := strconv.FormatBool(strings.Contains(span.Name(), "watched")); details(span.Attributes())["idempotency.observed"] != want {
			t.Errorf("span %s: observed is not %s", span.Name(), want)
		}
	}
}

func TestErrorTypes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("get: %w", storage.ErrCorruptRecord), "corrupt_record"},
		{fmt.Errorf("set: %w", storage.ErrStoreFull), "store_full"},
		{fmt.Errorf("get: %w", context.DeadlineExceeded), "timeout"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}, "timeout"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{}}, "_OTHER"},
		{context.Canceled, "canceled"},
		{errors.New("secret-host refused"), "_OTHER"},
		{nil, "_OTHER"},
	} {
		seen := newTelemetry(t)
		seen.observer.Observe(t.Context(), event.Event{Result: event.StoreError, Err: row.err})
		testkit.EqualSlices(t, seen.values("error.type"), []string{row.want}, "%v: error.type", row.err)
	}
	seen := newTelemetry(t)
	seen.observer.Observe(t.Context(), event.Event{Result: event.Refused, Err: errors.New("no key")})
	if got := seen.values("error.type"); len(got) > 0 {
		t.Errorf("a client's mistake has the error.type %q", got)
	}
}
