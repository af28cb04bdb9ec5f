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
	"github.com/oncekey/oncekey/policy"
)

const pending = "idempotency.settlement.pending"

// What waits for the store is pending until it has it, and no longer.
func TestDeferredSettlementIsPendingUntilItIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, created)
		store.fails(errStoreDown, &store.complete)
		s.post(t.Context(), "/payments", "k1", "1")
		s.post(t.Context(), "/payments", "k2", "1")
		if n := s.total(pending); n != 2 {
			t.Errorf("%d pending, want 2", n)
		}
		s.want("idempotency.settlements", map[event.Result]int64{event.Deferred: 2})
		s.want("idempotency.store.errors", map[event.Result]int64{event.Deferred: 2})
		s.want("idempotency.run.duration", map[event.Result]int64{}) // they have not ended
		if len(s.ended()) != 0 {
			t.Errorf("%d spans, want none yet", len(s.ended()))
		}

		store.fails(nil, &store.complete)
		advance(time.Second)
		if n := s.total(pending); n != 0 {
			t.Errorf("%d pending, want none", n)
		}
		s.want("idempotency.run.duration", map[event.Result]int64{event.Completed: 2})
		s.post(t.Context(), "/payments", "k3", "1") // one that never waited
		if n := s.total(pending); n != 0 || s.observer.Pending() != 0 {
			t.Errorf("%d pending, %d remembered, want none", n, s.observer.Pending())
		}
	})
}

// An answer that is given up waits no more.
func TestLostAnswerIsNotPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newService(t, store, core.WithSettleBudget(time.Minute))
		s.guard("POST /payments", created)
		store.fails(errStoreDown, &store.complete)
		s.post(t.Context(), "/payments", "k", "1")
		advance(2 * time.Minute)
		s.want("idempotency.settlements", map[event.Result]int64{event.Deferred: 1, event.AnswerLost: 1})
		s.want("idempotency.run.duration", map[event.Result]int64{event.AnswerLost: 1})
		if n := s.total(pending); n != 0 {
			t.Errorf("%d pending, want none", n)
		}
	})
}

// A key that could not be freed, until the budget ended: its last event is a
// store's error, as others are that end nothing.
func TestKeyThatCannotBeFreedEndsItsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newService(t, store, core.WithSettleBudget(time.Minute))
		s.guard("POST /payments", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		store.fails(errStoreDown, &store.release)
		s.post(t.Context(), "/payments", "k", "1")
		if n := s.total(pending); n != 1 {
			t.Errorf("%d pending, want one", n)
		}
		advance(2 * time.Minute)
		s.want("idempotency.run.duration", map[event.Result]int64{event.StoreError: 1})
		if n := s.total(pending); n != 0 {
			t.Errorf("%d pending, want none", n)
		}
	})
}

// Another attempt has the key by the time it is to be freed.
func TestPendingRunThatLosesItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		store.fails(errStoreDown, &store.release)
		s.post(t.Context(), "/payments", "k", "1")
		store.fails(core.ErrLeaseLost, &store.release)
		advance(time.Second)
		s.want("idempotency.run.duration", map[event.Result]int64{event.LeaseLost: 1})
		if n := s.total(pending); n != 0 {
			t.Errorf("%d pending, want none", n)
		}
	})
}

// A commit that is not confirmed leaves a key to be freed.
func TestUnconfirmedCommitIsPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := transactions{newBrokenStore()}
		s := newPayments(t, store, created, policy.Transactional(true))
		store.fails(errStoreDown, &store.release)
		s.post(t.Context(), "/payments", "k", "1")
		s.want("idempotency.store.errors", map[event.Result]int64{event.NotConfirmed: 1})
		if n := s.total(pending); n != 1 {
			t.Errorf("%d pending, want one", n)
		}
		store.fails(nil, &store.release)
		advance(time.Second)
		s.want("idempotency.settlements", map[event.Result]int64{event.NotConfirmed: 1, event.DeleteKey: 1})
		s.want("idempotency.run.duration", map[event.Result]int64{event.DeleteKey: 1})
		if n := s.total(pending); n != 0 {
			t.Errorf("%d pending, want none", n)
		}
	})
}

// A lease that a renewal finds lost is reported then, and again by the
// settlement: the run ends once all the same.
func TestLostLeaseEndsARunOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		store.fails(core.ErrLeaseLost, &store.extend, &store.complete, &store.release)
		s.post(t.Context(), "/payments", "k", "1")
		s.want("idempotency.settlements", map[event.Result]int64{event.LeaseLost: 2})
		s.want("idempotency.run.duration", map[event.Result]int64{event.LeaseLost: 1})
		if len(s.ended()) != 1 {
			t.Errorf("%d spans, want one", len(s.ended()))
		}
	})
}

// A store's error while the handler runs ends nothing.
func TestRenewalThatFailsEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, func(w http.ResponseWriter, _ *http.Request) {
			store.fails(errStoreDown, &store.extend)
			advance(11 * time.Second) // a third of LockTTL has passed
			store.fails(nil, &store.extend)
			w.WriteHeader(http.StatusCreated)
		})
		s.post(t.Context(), "/payments", "k", "1")
		s.want("idempotency.store.errors", map[event.Result]int64{event.StoreError: 1})
		s.want("idempotency.run.duration", map[event.Result]int64{event.Completed: 1})
	})
}

// What is remembered is bounded. A run beyond that is not counted in, nor out.
func TestMorePendingRunsThanAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newBrokenStore()
		s := newPayments(t, store, created)
		s.observer.FillPending()
		most := s.observer.Pending()
		store.fails(errStoreDown, &store.complete)
		s.post(t.Context(), "/payments", "k", "1")
		if n := s.total(pending); n != 0 || s.observer.Pending() != most {
			t.Errorf("%d pending, %d remembered, want 0 and %d", n, s.observer.Pending(), most)
		}
		store.fails(nil, &store.complete)
		advance(time.Second)
		s.want("idempotency.run.duration", map[event.Result]int64{event.Completed: 1})
		if n := s.total(pending); n != 0 {
			t.Errorf("%d pending, want none", n)
		}
	})
}

// A router inside the guard finds the route while the settlement waits already:
// what was counted in without a route is counted out without one.
func TestPendingRunWhoseRouteIsFoundLate(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	request := core.Request{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k"}
	run := s.engine.Begin(t.Context(), s.engine.MustRoute(), request).Run
	s.observer.Observe(run.Context(), event.Event{Result: event.Deferred})
	if n := s.total(pending); n != 1 {
		t.Errorf("%d pending, want one", n)
	}
	s.observer.Observe(run.Context(), event.Event{Result: event.Completed, Route: "POST /payments"})
	for attributes, value := range points(s.collect()[pending]) {
		if value != 0 || attributes.HasValue("idempotency.result") {
			t.Errorf("%d pending of %v, want none, of no result", value, attributes.ToSlice())
		}
	}
	if err := s.engine.Finish(run, failure.Outcome{Status: http.StatusCreated}, core.Answer{Status: http.StatusCreated}); err != nil {
		t.Error(err)
	}
}
