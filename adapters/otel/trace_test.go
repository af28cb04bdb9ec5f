package idemotel_test

import (
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// The span of a replay links to the request that ran, in another trace.
func TestReplaysLinkToTheirRun(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), core.WithTrace(idemotel.TraceOf))
	s.guard("POST /payments", created)
	first := s.within(t, "/payments", "k")
	second := s.within(t, "/payments", "k")
	var replays int
	for _, span := range s.ended() {
		links := span.Links()
		if details(span.Attributes())["idempotency.result"] != string(event.Replay) {
			if len(links) > 0 {
				t.Errorf("the run has the links %v", links)
			}
			continue
		}
		replays++
		if span.SpanContext().TraceID() != second.TraceID() || len(links) != 1 ||
			links[0].SpanContext.TraceID() != first.TraceID() || links[0].SpanContext.SpanID() != first.SpanID() || !links[0].SpanContext.IsRemote() {
			t.Errorf("the replay in %v links to %v, want %v", span.SpanContext(), links, first)
		}
	}
	testkit.Equal(t, replays, 1, "replays that have a span")
}

func TestTraceOf(t *testing.T) {
	t.Parallel()
	testkit.Equal(t, idemotel.TraceOf(t.Context()), "", "the trace without a span")
	ctx, span := sdktrace.NewTracerProvider().Tracer("t").Start(t.Context(), "s")
	defer span.End()
	traceID, spanID, _ := strings.Cut(idemotel.TraceOf(ctx), "-")
	if traceID != span.SpanContext().TraceID().String() || spanID != span.SpanContext().SpanID().String() {
		t.Errorf("got %s and %s, want the ids of %v", traceID, spanID, span.SpanContext())
	}
}

// Another program's text makes no link.
func TestTextsThatAreNoTrace(t *testing.T) {
	t.Parallel()
	traceID, spanID := trace.TraceID{1}.String(), trace.SpanID{2}.String()
	noTrace, noSpan := trace.TraceID{}.String(), trace.SpanID{}.String()
	for text, links := range map[string]int{
		traceID + "-" + spanID:                 1,
		"":                                     0,
		"-":                                    0,
		traceID:                                0,
		traceID + "-":                          0,
		traceID + spanID:                       0,
		traceID + "-" + spanID + "-01":         0,
		"00-" + traceID + "-" + spanID + "-01": 0,
		traceID[1:] + "-" + spanID:             0,
		traceID + "-" + spanID[1:]:             0,
		noTrace + "-" + spanID:                 0,
		traceID + "-" + noSpan:                 0,
		strings.Repeat("x", 32) + "-" + spanID: 0,
		traceID + "-" + strings.Repeat("\xff", 16): 0,
	} {
		seen := newTelemetry(t)
		seen.observer.Observe(t.Context(), event.Event{Result: event.Replay, Trace: text})
		testkit.Equal(t, len(seen.ended()[0].Links()), links, "%q makes the links", text)
	}
}

// A RecoverFunc's error ends the run, and the decision after it ends the request's span.
func TestRequestHasOneSpanAfterARecoverError(t *testing.T) {
	t.Parallel()
	seen := newTelemetry(t)
	seen.observer.Observe(t.Context(), event.Event{Result: event.RecoverError})
	seen.observer.Observe(t.Context(), event.Event{Result: event.OutcomeUnknown})
	seen.wantSpans(1)
}
