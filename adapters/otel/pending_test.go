package idemotel_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

const pending = "idempotency.settlement.pending"

// A settlement is pending until the store has accepted the result. The age is that of the oldest one, and zero without one.
func TestDeferredSettlementIsPendingUntilItIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, created)
		s.wantAge(0)
		store.Fail(errStoreDown, testkit.Complete)
		s.post(t.Context(), "/payments", "k1", "1")
		advance(time.Minute)
		s.post(t.Context(), "/payments", "k2", "1")
		s.wantTotal(pending, 2)
		advance(time.Minute)
		s.wantAge(2 * time.Minute)
		s.want("idempotency.settlements", map[event.Result]int64{event.SettleDeferred: 2})
		s.want("idempotency.store.errors", map[event.Result]int64{event.SettleDeferred: 2})
		s.wantTimed("idempotency.run.duration", 0) // no run has ended
		s.wantSpans(0)

		store.Fail(nil, testkit.Complete)
		advance(time.Minute)
		s.wantAge(0)
		s.wantTotal(pending, 0)
		s.wantTimed("idempotency.run.duration", 2)
		s.post(t.Context(), "/payments", "k3", "1") // a run without a deferred settlement
		if n := s.total(pending); n != 0 || s.observer.Pending() != 0 {
			t.Errorf("%d pending, %d remembered, want none", n, s.observer.Pending())
		}
	})
}

// A response that is lost is no longer pending, and a key that is released no more ends its run: another attempt holds it, or
// the engine could not release it within its budget. In the latter case the run's last event is a store error, although other
// store errors do not end a run.
func TestSettlementThatIsGivenUpEndsItsRun(t *testing.T) {
	t.Parallel()
	failed := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	type row struct {
		handle http.HandlerFunc
		method testkit.Method
		last   error
		ends   event.Result
	}
	testkit.EachInBubble(t, map[string]row{
		"a lost response":     {created, testkit.Complete, errStoreDown, event.ResponseLost},
		"a key, in time":      {failed, testkit.Release, errStoreDown, event.StoreError},
		"a key that was lost": {failed, testkit.Release, core.ErrLeaseLost, event.LeaseLost},
	}, func(t *testing.T, row row) {
		store := newBrokenStore()
		s := newService(t, store, core.WithSettleBudget(time.Minute))
		s.guard("POST /payments", row.handle)
		store.Fail(errStoreDown, row.method)
		s.post(t.Context(), "/payments", "k", "1")
		s.wantTotal(pending, 1)
		store.Fail(row.last, row.method)
		advance(2 * time.Minute)
		want := map[event.Result]int64{event.SettleDeferred: 1, row.ends: 1}
		delete(want, event.StoreError) // it is no settlement
		s.want("idempotency.settlements", want)
		s.wantTimed("idempotency.run.duration", 1)
		s.wantTotal(pending, 0)
	})
}

// An unconfirmed commit leaves a key to release.
func TestUnconfirmedCommitIsPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := transactions{newBrokenStore()}
		s := newPayments(t, store, created, policy.Transactional(true))
		store.Fail(errStoreDown, testkit.Release)
		s.post(t.Context(), "/payments", "k", "1")
		s.want("idempotency.store.errors", map[event.Result]int64{event.NotConfirmed: 1})
		s.wantTotal(pending, 1)
		store.Fail(nil, testkit.Release)
		advance(time.Second)
		s.want("idempotency.settlements", map[event.Result]int64{event.NotConfirmed: 1, event.DeleteKey: 1})
		s.wantTimed("idempotency.run.duration", 1)
		s.wantTotal(pending, 0)
	})
}

// A renewal reports a lost lease, and the settlement reports the loss again. The run
// ends once.
func TestLostLeaseEndsARunOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		store.Fail(core.ErrLeaseLost, testkit.Extend, testkit.Complete, testkit.Release)
		s.post(t.Context(), "/payments", "k", "1")
		s.want("idempotency.settlements", map[event.Result]int64{event.LeaseLost: 2})
		s.wantTimed("idempotency.run.duration", 1)
		s.wantSpans(1)
	})
}

// The table of pending runs is bounded. A run beyond the bound never counts as pending.
func TestMorePendingRunsThanTheTableHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, created)
		s.observer.FillPending()
		most := s.observer.Pending()
		store.Fail(errStoreDown, testkit.Complete)
		s.post(t.Context(), "/payments", "k", "1")
		if n := s.total(pending); n != 0 || s.observer.Pending() != most {
			t.Errorf("%d pending, %d remembered, want 0 and %d", n, s.observer.Pending(), most)
		}
		store.Fail(nil, testkit.Complete)
		advance(time.Second)
		s.wantTimed("idempotency.run.duration", 1)
		s.wantTotal(pending, 0)
	})
}

// A router inside the guard finds the route while the settlement is pending. A run that
// was counted without a route is removed without a route.
func TestPendingRunWhoseRouteIsFoundLate(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	request := core.Request{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k"}
	run := s.engine.Begin(t.Context(), s.engine.MustRoute(), request).Run
	subject := new(event.Subject)
	for range 2 { // it counts once
		s.observer.Observe(run.Context(), event.Event{Result: event.SettleDeferred, Subject: subject})
	}
	s.wantTotal(pending, 1)
	s.observer.Observe(run.Context(), event.Event{Result: event.Completed, Route: "POST /payments", Subject: subject})
	for attributes, value := range points(s.collect()[pending]) {
		if value != 0 || attributes.HasValue("idempotency.result") {
			t.Errorf("%d pending of %v, want none, of no result", value, attributes.ToSlice())
		}
	}
	if err := s.engine.Finish(run, failure.Outcome{Status: http.StatusCreated}, core.Response{Status: http.StatusCreated}); err != nil {
		t.Error(err)
	}
}
