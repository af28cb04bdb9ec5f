package idemotel_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// within sends a request in a span, as the server's instrumentation does.
func (s *service) within(t *testing.T, path, key string) trace.SpanContext {
	t.Helper()
	ctx, server := s.tracing.Tracer("server").Start(t.Context(), "POST")
	defer server.End()
	s.post(ctx, path, key, "1")
	return server.SpanContext()
}

// byName returns the only span that ended with a name.
func byName(t *testing.T, all []sdktrace.ReadOnlySpan, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(all), func(span sdktrace.ReadOnlySpan) bool { return span.Name() != name })
	if len(found) != 1 {
		t.Fatalf("%d spans have ended as %q, want one", len(found), name)
	}
	return found[0]
}

// A run is one span, from the request's arrival to its settlement, in the request's
// trace. The handler's own spans keep their parents.
func TestSpanOfARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, newBrokenStore())
		s.guard("POST /payments/{id}", func(w http.ResponseWriter, r *http.Request) {
			_, child := s.tracing.Tracer("handler").Start(r.Context(), "charge")
			advance(2 * time.Second)
			child.End()
			w.WriteHeader(http.StatusCreated)
		})
		began := time.Now()
		server := s.within(t, "/payments/17", "secret-key")

		span := byName(t, s.spans.Ended(), "idempotency POST /payments/{id}")
		if span.Parent().SpanID() != server.SpanID() || span.SpanContext().TraceID() != server.TraceID() {
			t.Errorf("the parent is %v, want the server's span %v", span.Parent(), server)
		}
		if took := 2*time.Second + time.Millisecond; !span.StartTime().Equal(began) || span.EndTime().Sub(span.StartTime()) != took {
			t.Errorf("from %v to %v, want %v from %v on", span.StartTime(), span.EndTime(), took, began)
		}
		if span.Status().Code != codes.Unset || span.SpanKind() != trace.SpanKindInternal {
			t.Errorf("status %v, kind %v, want neither error nor server", span.Status(), span.SpanKind())
		}
		attributes := details(span.Attributes())
		for name, want := range map[string]string{
			"idempotency.result": "completed", "idempotency.observed": "false", "idempotency.attempt": "1",
			"idempotency.store.duration": "0.001", "http.request.method": "POST", "http.route": "/payments/{id}",
		} {
			testkit.Equal(t, attributes[name], want, "%s", name)
		}
		if child := byName(t, s.spans.Ended(), "charge"); child.Parent().SpanID() != server.SpanID() {
			t.Errorf("the handler's span has the parent %v, want the server's", child.Parent())
		}
	})
}

// The key's hash connects a run and its replays. No span has the key, the scope or the
// path.
func TestSpansHaveTheHashOfTheKeyAlone(t *testing.T) {
	t.Parallel()
	s := newPayments(t, memstore.New(), created)
	for range 3 {
		s.within(t, "/payments", "secret-key")
	}
	s.within(t, "/payments", "secret-key-2")
	hashes, replays := make(map[string]int), 0
	for _, span := range s.ended() {
		attributes := details(span.Attributes())
		hashes[attributes["idempotency.key.hash"]]++
		if attributes["idempotency.result"] == string(event.Replay) {
			replays++
		}
	}
	if len(hashes) != 2 || len(s.ended()) != 4 || replays != 2 {
		t.Errorf("%d spans with the hashes %v, %d replays, want 4, one hash a key, 2", len(s.ended()), hashes, replays)
	}
	for hash, n := range hashes {
		if len(hash) != 16 || n == 2 {
			t.Errorf("%d spans have the hash %q", n, hash)
		}
	}
	for _, span := range s.spans.Ended() {
		texts := []string{span.Name(), span.Status().Description}
		for _, one := range span.Attributes() {
			texts = append(texts, one.Value.String())
		}
		for _, event := range span.Events() {
			for _, one := range event.Attributes {
				texts = append(texts, one.Value.String())
			}
		}
		if all := strings.Join(texts, " "); strings.Contains(all, "secret") {
			t.Errorf("a span has %s", all)
		}
	}
}

// Intermediate events appear on the request's own span.
func TestEventsOnTheRequestsSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, created)
		store.Fail(errors.New("refused \xff"), testkit.Complete)
		s.within(t, "/payments", "k")

		server := byName(t, s.spans.Ended(), "POST")
		if server.Status().Code != codes.Unset || len(server.Attributes()) > 0 {
			t.Errorf("the server's span was touched: %v %v", server.Status(), server.Attributes())
		}
		var names []string
		for _, event := range server.Events() {
			names = append(names, event.Name)
		}
		if want := []string{"idempotency.execute", "idempotency.settle_deferred"}; !slices.Equal(names, want) {
			t.Fatalf("the events are %q, want %q", names, want)
		}
		deferred := details(server.Events()[1].Attributes)
		if deferred["error.message"] != "refused \uFFFD" || deferred["idempotency.attempt"] != "1" {
			t.Errorf("the event has %v, want the error and the attempt", deferred)
		}

		// The response is out; the run's span ends with the run.
		store.Fail(nil, testkit.Complete)
		advance(time.Second)
		run := byName(t, s.spans.Ended(), "idempotency POST /payments")
		if run.Parent().SpanID() != server.SpanContext().SpanID() || !run.EndTime().After(server.EndTime()) {
			t.Errorf("the run's span ends at %v under %v, want after %v under the server's", run.EndTime(), run.Parent(), server.EndTime())
		}
	})
}

// A request without an outer span still has a span.
func TestSpanWithoutAParent(t *testing.T) {
	t.Parallel()
	s := newPayments(t, memstore.New(), created)
	s.post(t.Context(), "/payments", "k", "1")
	if all := s.ended(); len(all) != 1 || all[0].Parent().IsValid() || len(all[0].Events()) > 0 {
		t.Errorf("got %v, want one span, a root", all)
	}
}

// The status is for operators: a client's mistake is not a server error.
func TestStatusOfSpans(t *testing.T) {
	t.Parallel()
	failed := []event.Result{
		event.Unprotected, event.Unavailable, event.OutcomeUnknown, event.DeleteKey, event.Uncertain, event.ResponseLost,
		event.LeaseLost, event.WrongSetup,
	}
	for _, result := range results(t) {
		for _, err := range []error{nil, errors.New("broken \xff")} {
			seen := newTelemetry(t)
			seen.observer.Observe(t.Context(), event.Event{
				Result: result, Err: err, StoreLatency: time.Millisecond, Code: "code", Reason: "reason \xff", Final: result == event.LeaseLost,
			})
			for _, span := range seen.ended() {
				want := sdktrace.Status{}
				switch {
				case !slices.Contains(failed, result):
				case err != nil && (result == event.DeleteKey || result == event.Uncertain): // Case 43: the handler's error may quote the request
					want = sdktrace.Status{Code: codes.Error, Description: "*errors.errorString"}
				case err != nil:
					want = sdktrace.Status{Code: codes.Error, Description: "broken \uFFFD"}
				default:
					want = sdktrace.Status{Code: codes.Error, Description: string(result)}
				}
				testkit.Equal(t, span.Status(), want, "%s: the status", result)
				attributes := details(span.Attributes())
				if attributes["idempotency.code"] != "code" || attributes["idempotency.reason"] != "reason \uFFFD" {
					t.Errorf("%s: the attributes are %v", result, attributes)
				}
			}
			if slices.Contains(failed, result) && len(seen.ended()) != 1 {
				t.Errorf("%s has %d spans, want one", result, len(seen.ended()))
			}
		}
	}
}

// An unsampled request makes no attributes and no span.
func TestUnsampledRequests(t *testing.T) {
	t.Parallel()
	s := newPayments(t, memstore.New(), created)
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	s.post(trace.ContextWithRemoteSpanContext(context.Background(), parent), "/payments", "k", "1")
	s.wantSpans(0)
}

// The name leaves out an unknown method or route.
func TestNamesOfSpans(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]string{
		"":            "idempotency",
		"/p":          "idempotency /p",
		"POST /p":     "idempotency POST /p",
		"POST /\xff":  "idempotency POST /\uFFFD",
		"PURGE /p":    "idempotency /p",
		"charge card": "idempotency charge card",
	} {
		seen := newTelemetry(t)
		seen.observer.Observe(t.Context(), event.Event{Result: event.Replay, Route: route})
		testkit.Equal(t, seen.ended()[0].Name(), want, "%q: the span", route)
	}
}
