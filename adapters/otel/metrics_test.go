package idemotel_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
)

// results are the constants of package event, as they stand in its source.
func results(t *testing.T) (all []event.Result) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../core/event/event.go", nil, 0)
	testkit.Must(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if named, _ := spec.Type.(*ast.Ident); named == nil || named.Name != "Result" {
			return true
		}
		for _, value := range spec.Values {
			text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			testkit.Must(t, err)
			all = append(all, event.Result(text))
		}
		return true
	})
	if len(all) < 20 {
		t.Fatalf("found %d constants", len(all))
	}
	return all
}

// The test fails until a new event.Result has a line in effects.
func TestEveryResultIsMeasured(t *testing.T) {
	t.Parallel()
	for _, result := range results(t) {
		if !idemotel.Knows(result) {
			t.Errorf("%q has no line in effects: add its effect on metrics and spans", result)
			continue
		}
		seen := newTelemetry(t)
		seen.observer.Observe(t.Context(), event.Event{Result: result})
		counted := int64(0)
		for _, name := range []string{"requests", "settlements", "lease.expired", "lease.renewals", "store.errors"} {
			counted += seen.total("idempotency." + name)
		}
		if counted == 0 {
			t.Errorf("%q is counted nowhere", result)
		}
	}
}

// Events of a newer version of package core are counted too.
func TestUnknownResultIsCounted(t *testing.T) {
	t.Parallel()
	seen := newTelemetry(t)
	seen.observer.Observe(t.Context(), event.Event{Result: "new"})
	seen.want("idempotency.settlements", map[event.Result]int64{"new": 1})
}

func TestDecisionsAndSettlementsAreCounted(t *testing.T) {
	t.Parallel()
	s := newPayments(t, memstore.New(), created)
	s.post(t.Context(), "/payments", "k", "1")
	s.post(t.Context(), "/payments", "k", "1")
	s.post(t.Context(), "/payments", "k", "1")
	s.post(t.Context(), "/payments", "k", "2")
	s.post(t.Context(), "/payments", strings.Repeat("k", 256), "1")

	decisions := map[event.Result]int64{
		event.Execute: 1, event.Replay: 2, event.KeyReused: 1, event.Refused: 1,
	}
	s.want("idempotency.requests", decisions)
	s.want("idempotency.decision.duration", decisions)
	s.want("idempotency.conflicts", map[event.Result]int64{event.KeyReused: 1})
	s.want("idempotency.settlements", map[event.Result]int64{event.Completed: 1})
	s.wantTimed("idempotency.run.duration", 1)
	s.want("idempotency.store.errors", map[event.Result]int64{})
	s.want("idempotency.lease.expired", map[event.Result]int64{})
}

// A request that is served in spite of a wrong setup has one decision and one span, those of
// its run: see core.Engine.Warn.
func TestWarningIsNoDecision(t *testing.T) {
	t.Parallel()
	var s *service
	s = newPayments(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		s.engine.Warn(r, s.engine.Routes()[0], errors.New("the context of gin does not end"))
		created(w, r)
	})
	s.post(t.Context(), "/payments", "k", "1")
	s.want("idempotency.requests", map[event.Result]int64{event.Execute: 1})
	s.want("idempotency.settlements", map[event.Result]int64{event.Completed: 1, event.WrongSetup: 1})
	s.wantSpans(1)
}

// A run ends once, with any result.
func TestReleasedKeys(t *testing.T) {
	t.Parallel()
	s := newPayments(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(core.KeyHeader) == "taken" {
			failure.MarkRetryable(r.Context(), "e-mail is taken")
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	s.post(t.Context(), "/payments", "taken", "1")
	s.post(t.Context(), "/payments", "broken", "1")
	released := map[event.Result]int64{event.Retryable: 1, event.DeleteKey: 1}
	s.want("idempotency.settlements", released)
	s.wantTimed("idempotency.run.duration", 2)
}

// Events count even after the client has disconnected.
func TestEventsAfterADisconnect(t *testing.T) {
	t.Parallel()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	s := newPayments(t, memstore.New(), created)
	s.post(gone, "/payments", "k", "1")
	s.want("idempotency.requests", map[event.Result]int64{event.Execute: 1})
	s.want("idempotency.settlements", map[event.Result]int64{event.Completed: 1})
	s.wantSpans(1)
}

// Routes beyond the cache are counted too, with a span name each. The SDK bounds the
// series of metrics.
func TestMoreRoutesThanTheCacheHolds(t *testing.T) {
	t.Parallel()
	const routes = idemotel.MaxSeries + 10
	seen := newTelemetry(t)
	for range 2 {
		for i := range routes {
			seen.observer.Observe(t.Context(), event.Event{Result: event.Replay, Route: fmt.Sprintf("POST /%d", i)})
		}
	}
	testkit.Equal(t, seen.total("idempotency.requests"), 2*routes, "requests that are counted")
	testkit.Equal(t, seen.observer.Kept(), idemotel.MaxSeries, "series that are kept")
	names := make(map[string]bool)
	for _, span := range seen.ended() {
		names[span.Name()] = true
	}
	testkit.Equal(t, len(names), routes, "routes that have spans")
}

// Every 409 and 422 response counts as a conflict, and no event is lost.
func TestConcurrentEvents(t *testing.T) {
	t.Parallel()
	seen := newTelemetry(t)
	all := results(t)
	const times = 50
	testkit.Concurrently(times, func(int) {
		for i, result := range all {
			seen.observer.Observe(context.Background(), event.Event{Result: result, Route: fmt.Sprintf("POST /%d", i%3), Duration: time.Second})
		}
	})
	seen.want("idempotency.conflicts", map[event.Result]int64{
		event.InProgress: times, event.KeyReused: times, event.NotReplayable: times, event.KeyExpired: times, event.OutcomeUnknown: times,
	})
	seen.wantTotal("idempotency.lease.expired", times)
}

// The store's time is recorded for steps with a store call.
func TestStoreDuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newPayments(t, newBrokenStore(), created)
		s.post(t.Context(), "/payments", "k", "1")
		s.wantTimed("idempotency.store.duration", 1)
	})
}
