package idemotel

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// labels are the common values of events of one kind. All values come from fixed sets,
// except the route, which is spelled as in the program.
type labels struct {
	result    event.Result
	observed  bool
	method    string
	route     string // the event's route: with or without the method, or empty
	errorType string // "" unless the event counts in store.errors
	code      string // "" unless the result is unavailable
}

// labelsOf does not allocate if the route's pattern names the method.
func labelsOf(event *event.Event, effects effect) labels {
	l := labels{result: event.Result, observed: event.Observed, route: event.Route, method: methodOf(event)}
	if effects.has(isStoreError) {
		l.errorType = errorType(event.Err)
	}
	if effects.has(hasCode) {
		l.code = event.Code
	}
	return l
}

func (l *labels) attributes() []attribute.KeyValue {
	attributes := append(l.place(), l.decision())
	if l.errorType != "" {
		attributes = append(attributes, attribute.String("error.type", l.errorType))
	}
	if l.code != "" {
		attributes = append(attributes, attribute.String("idempotency.code", text(l.code)))
	}
	return attributes
}

func (l *labels) decision() attribute.KeyValue {
	return attribute.String("idempotency.result", text(string(l.result)))
}

// place returns the attributes of the route, without the result.
func (l *labels) place() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Bool("idempotency.observed", l.observed),
		attribute.String("http.request.method", l.method),
		attribute.String("http.route", l.routeName()),
	}
}

// series holds the precomputed options of labels. A histogram has a series for each of
// its boundaries, so only decision.duration has the result.
type series struct {
	counted   []metric.AddOption
	decided   []metric.RecordOption
	timed     []metric.RecordOption // only the place
	placed    []metric.AddOption    // only the place, so that the end of a run decrements the series of its beginning
	started   []trace.SpanStartOption
	spanName  string
	eventName string
}

func newSeries(l labels) *series {
	attributes := l.attributes()
	all := metric.WithAttributeSet(attribute.NewSet(attributes...))
	place := metric.WithAttributeSet(attribute.NewSet(l.place()...))
	decision := metric.WithAttributeSet(attribute.NewSet(append(l.place(), l.decision())...))
	s := &series{
		counted:   []metric.AddOption{all},
		decided:   []metric.RecordOption{decision},
		timed:     []metric.RecordOption{place},
		placed:    []metric.AddOption{place},
		started:   []trace.SpanStartOption{trace.WithAttributes(attributes...), trace.WithSpanKind(trace.SpanKindInternal)},
		spanName:  "idempotency",
		eventName: "idempotency." + text(string(l.result)),
	}
	if l.method != otherMethod { // semantic conventions keep _OTHER out of span names
		s.spanName += " " + l.method
	}
	if l.route != "" {
		s.spanName += " " + l.routeName()
	}
	return s
}

// maxSeries bounds the cache. A route has about ten series.
const maxSeries = 4096

// seriesCache keeps the series of labels.
type seriesCache struct {
	mu    sync.RWMutex
	known map[labels]*series
}

// of returns the series of labels. When the cache is full, it makes a new series for each
// call, which is slower but counts the same.
func (c *seriesCache) of(l labels) *series {
	c.mu.RLock()
	s := c.known[l]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	s = newSeries(l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.known[l]; first != nil {
		return first
	}
	if len(c.known) < maxSeries {
		c.known[l] = s
	}
	return s
}

// Values for unknown routes, methods and errors. unmatched belongs to this package, _OTHER
// to the semantic conventions.
const (
	unmatched   = "unmatched"
	otherMethod = "_OTHER"
	otherError  = "_OTHER"
)

// methodOf returns the request's method: one of RFC 9110, RFC 5789, core.Do or adapters/mcp
// unchanged, and _OTHER for any other. It reads only the first word of the endpoint, because
// the rest may be a path, which does not belong in a metric.
func methodOf(event *event.Event) string {
	method, _, _ := strings.Cut(cmp.Or(event.Endpoint(), event.Route), " ") // an event of a test has no Subject
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, storage.MethodCall, storage.MethodTool:
		return method
	default:
		return otherMethod
	}
}

// routeName returns a pattern without its method and host, as otelhttp does: net/http's
// "POST example.com/payments" has both. The name of a call (core.Do) or of a tool stays
// whole: "SQS payments".
func (l *labels) routeName() string {
	route := l.route
	if path := strings.IndexByte(route, '/'); path > 0 && l.method != storage.MethodCall && l.method != storage.MethodTool {
		route = route[path:]
	}
	if route == "" {
		return unmatched
	}
	return text(route)
}

// errorType classifies a store's error by the operator's reaction.
func errorType(err error) string {
	timeout, isNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, storage.ErrCorruptRecord):
		return "corrupt_record"
	case errors.Is(err, storage.ErrStoreFull):
		return "store_full"
	case errors.Is(err, context.DeadlineExceeded), isNetwork && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return otherError
	}
}

// text makes a string valid UTF-8. An exporter may refuse a whole batch for one invalid
// attribute.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
