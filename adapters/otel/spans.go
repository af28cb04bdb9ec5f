package idemotel

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekey/oncekey/core/event"
)

func (o *Observer) trace(ctx context.Context, event *event.Event, effects effect, s *series) {
	switch {
	case effects.has(endsSpan):
		o.record(ctx, event, effects, s)
	case effects.has(marksSpan):
		mark(ctx, event, s)
	}
}

// record makes the span of a finished request. A sampler sees the attributes of the
// metrics. Attributes that need computing are only set on a sampled span.
func (o *Observer) record(ctx context.Context, event *event.Event, effects effect, s *series) {
	ended := time.Now()
	options := append(make([]trace.SpanStartOption, 0, len(s.started)+2), s.started...)
	options = append(options, trace.WithTimestamp(ended.Add(-event.Duration)))
	if first, known := spanOf(event.Trace); known {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: first}))
	}
	_, span := o.tracer.Start(ctx, s.spanName, options...)
	if span.IsRecording() {
		span.SetAttributes(details(event)...)
		if effects.has(isFailure) {
			span.SetStatus(codes.Error, failure(event))
		}
	}
	span.End(trace.WithTimestamp(ended))
}

// TraceOf returns the trace id and the span id of the span in ctx, in hex with a hyphen in
// between, or "" without a span. With core.WithTrace(idemotel.TraceOf) records keep the
// trace of their run, and the span of a replay has a link to it.
func TraceOf(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	return span.TraceID().String() + "-" + span.SpanID().String()
}

// spanOf is the inverse of TraceOf. It returns false for any other text: another program
// may have written the record.
func spanOf(text string) (span trace.SpanContext, known bool) {
	traceID, spanID, _ := strings.Cut(text, "-")
	inTrace, _ := trace.TraceIDFromHex(traceID) // zero after an error
	id, _ := trace.SpanIDFromHex(spanID)
	span = trace.NewSpanContext(trace.SpanContextConfig{TraceID: inTrace, SpanID: id, Remote: true})
	return span, span.IsValid()
}

// mark adds an event to the request's span if the span has not ended.
func mark(ctx context.Context, event *event.Event, s *series) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := details(event)
	if event.Err != nil {
		attributes = append(attributes, attribute.String("error.message", text(event.ErrorText())))
	}
	span.AddEvent(s.eventName, trace.WithAttributes(attributes...))
}

// details are the attributes of a single request.
func details(event *event.Event) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 6)
	if hash := event.KeyHash(); hash != "" {
		all = append(all, attribute.String("idempotency.key.hash", hash))
	}
	if event.Attempt > 0 {
		all = append(all, attribute.Int64("idempotency.attempt", int64(event.Attempt)))
	}
	if event.StoreLatency > 0 {
		all = append(all, attribute.Float64("idempotency.store.duration", event.StoreLatency.Seconds()))
	}
	if event.Code != "" {
		all = append(all, attribute.String("idempotency.code", event.Code))
	}
	if event.Reason != "" {
		all = append(all, attribute.String("idempotency.reason", text(event.Reason)))
	}
	return all
}

// failure describes the Error status.
func failure(event *event.Event) string {
	if event.Err != nil {
		return text(event.ErrorText())
	}
	return text(string(event.Result))
}
