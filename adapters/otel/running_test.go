package idemotel_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

const running = "idempotency.running"

// A run is under way from its handler's first line to its settlement. A duplicate is none.
func TestRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		var s *service
		s = newPayments(t, store, func(w http.ResponseWriter, r *http.Request) {
			s.wantTotal(running, 1)
			s.post(t.Context(), "/payments", r.Header.Get(core.KeyHeader), "1")
			s.wantTotal(running, 1)
			w.WriteHeader(http.StatusCreated)
		})
		s.post(t.Context(), "/payments", "k1", "1")
		s.wantTotal(running, 0)
		store.Fail(errStoreDown, testkit.Complete)
		s.post(t.Context(), "/payments", "k2", "1")
		s.wantTotal(running, 1)
		store.Fail(nil, testkit.Complete)
		advance(time.Second)
		if n := s.total(running); n != 0 || s.observer.Running() != 0 {
			t.Errorf("%d running, %d remembered, want none", n, s.observer.Running())
		}
	})
}

// A RecoverFunc ends a run whose handler never begins.
func TestRecoveredRunIsNotRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		unreachable := brokenOver(store)
		unreachable.Fail(errStoreDown, testkit.Complete, testkit.Release, testkit.Extend)
		crashed := newPayments(t, unreachable, created)
		crashed.post(t.Context(), "/payments", "k", "1")
		testkit.Abort(crashed.engine)
		advance(time.Minute)
		found := func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return nil, errors.New("the bank is closed")
		}
		s := newPayments(t, store, created, policy.OnAbandoned(policy.Recover(found)))
		s.post(t.Context(), "/payments", "k", "1")
		s.want("idempotency.settlements", map[event.Result]int64{event.RecoverError: 1})
		s.wantTotal(running, 0)
	})
}

// Renewals are counted by their result. One that failed is a store error too, and does not end the run.
func TestLeaseRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, func(w http.ResponseWriter, r *http.Request) {
			advance(11 * time.Second)
			store.Fail(errStoreDown, testkit.Extend)
			advance(10 * time.Second)
			created(w, r)
		}, policy.LockTTL(30*time.Second))
		s.post(t.Context(), "/payments", "k", "1")
		s.want("idempotency.lease.renewals", map[event.Result]int64{event.LeaseRenewed: 1, event.StoreError: 1})
		s.want("idempotency.store.errors", map[event.Result]int64{event.StoreError: 1})
		s.wantTimed("idempotency.run.duration", 1)
	})
}

// A 503 of a process that shuts down does not look like one of a store that is unreachable.
func TestUnavailableHasItsCode(t *testing.T) {
	t.Parallel()
	store := newBrokenStore()
	s := newPayments(t, store, created)
	store.Fail(errStoreDown, testkit.Acquire)
	s.post(t.Context(), "/payments", "k", "1")
	testkit.Must(t, s.engine.Shutdown(t.Context()))
	s.post(t.Context(), "/payments", "k", "1")
	s.post(t.Context(), "/payments", "k", "1")
	codes := make(map[string]int64)
	for attributes, n := range points(s.collect()["idempotency.requests"]) {
		code, _ := attributes.Value("idempotency.code")
		codes[code.AsString()] += n
	}
	if codes["store_unavailable"] != 1 || codes["shutting_down"] != 2 || len(codes) != 2 {
		t.Errorf("requests by code are %v, want one store_unavailable and two shutting_down", codes)
	}
}

// The gauge of the records is there on demand, because only some stores can count cheaply.
func TestRecords(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	seen := newTelemetry(t, idemotel.WithRecords(store.Len))
	engine, err := core.New(store, core.SharedScope)
	testkit.Must(t, err)
	charge := func(context.Context) (int, error) { return 1, nil }
	for _, key := range []string{"k1", "k2"} {
		if _, _, err := core.Do(t.Context(), engine, core.Call{Scope: "queue", Name: "charge", Key: key}, charge); err != nil {
			t.Fatal(err)
		}
	}
	gauge, _ := seen.collect()["idempotency.store.records"].Data.(metricdata.Gauge[int64])
	if len(gauge.DataPoints) != 1 || gauge.DataPoints[0].Value != 2 {
		t.Errorf("the gauge is %v, want 2 records", gauge.DataPoints)
	}
	if _, exists := newTelemetry(t).collect()["idempotency.store.records"]; exists {
		t.Error("without WithRecords there is a gauge")
	}
}

// The requests that wait for a run are a gauge, and the rows that sweeps have removed a counter, where the program gives them.
func TestWaitingAndSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine *core.Engine
		var swept atomic.Int64
		seen := newTelemetry(t, idemotel.WithWaiting(func() int { return engine.Waiting() }), idemotel.WithSwept(swept.Load))
		var err error
		if engine, err = core.New(memstore.New(), core.SharedScope); err != nil {
			t.Fatal(err)
		}
		waiting := func() int64 {
			gauge, _ := seen.collect()["idempotency.waiting"].Data.(metricdata.Gauge[int64])
			if len(gauge.DataPoints) != 1 {
				t.Fatalf("the gauge is %+v", gauge)
			}
			return gauge.DataPoints[0].Value
		}
		release := make(chan struct{})
		call := core.Call{Scope: "queue", Name: "charge", Key: "k", Route: engine.MustRoute(policy.Wait(time.Minute))}
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				_, _, err := core.Do(t.Context(), engine, call, func(context.Context) (int, error) {
					<-release
					return 1, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		testkit.Equal(t, waiting(), 2, "requests that wait")
		close(release)
		calls.Wait()
		testkit.Equal(t, waiting(), 0, "requests that wait at the end")
		swept.Add(5)
		counter, _ := seen.collect()["idempotency.store.swept"].Data.(metricdata.Sum[int64])
		if len(counter.DataPoints) != 1 || counter.DataPoints[0].Value != 5 || !counter.IsMonotonic {
			t.Errorf("the counter is %+v, want 5", counter)
		}
	})
	without := newTelemetry(t).collect()
	for _, name := range []string{"idempotency.waiting", "idempotency.store.swept"} {
		if _, exists := without[name]; exists {
			t.Errorf("there is %s, and no option asks for it", name)
		}
	}
}

// Case 39: a panic of the program's count is an error of the collection, which has all other
// metrics. On the provider's goroutine it would end the process.
func TestPanickingRecords(t *testing.T) {
	t.Parallel()
	seen := newTelemetry(t, idemotel.WithRecords(func() int { panic("count") }))
	var all metricdata.ResourceMetrics
	err := seen.reader.Collect(t.Context(), &all)
	testkit.Fails(t, "the collection", err, nil, "the function of WithRecords panicked with a value of type string")
	if len(all.ScopeMetrics) != 1 || len(all.ScopeMetrics[0].Metrics) == 0 {
		t.Errorf("the collection has %+v, want the other metrics", all.ScopeMetrics)
	}
}
