package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A key counts as reconciled once the store has confirmed its outcome, also where that takes
// several calls. It is the only event about the end of a question.
func TestReconciledOnceStored(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]core.Finding{"kept": core.Happened, "released": core.DidNotHappen}, func(t *testing.T, found core.Finding) {
		faulty := newFaultyStore()
		store := struct {
			*faultyStore
			storage.Inspector
		}{faulty, faulty.Store.(storage.Inspector)}
		s := newService(t, store, uncertain)
		s.post(t.Context(), "k", payment)
		faulty.set(&faulty.complete, &faulty.release)(failUnapplied)
		s.reconcile(t, finding(found), soon)
		advance(2 * time.Minute)
		s.wantEvent(t, event.Reconciled, 0)
		faulty.set(&faulty.complete, &faulty.release)(nil)
		advance(2 * time.Minute)
		s.events.wantEnd(t, event.Uncertain, event.Reconciled)
	})
}

// hanging is a store whose lists do not return by themselves.
type hanging struct {
	*memstore.Store
	lists chan struct{}
}

func (h *hanging) List(ctx context.Context, _ storage.Filter, _ storage.Page) (storage.Listing, error) {
	h.lists <- struct{}{}
	<-ctx.Done()
	return storage.Listing{}, ctx.Err()
}

// Reconcile ends with its context and with its engine, also while the store does not reply, which is no failure of the store
// then. It does not begin after a Shutdown.
func TestReconcileEndsWithoutItsStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{memstore.New(), make(chan struct{}, 10)}
		s := newService(t, store, created)
		stop := s.reconcile(t, finding(core.Happened), soon)
		<-store.lists
		stop()
		s.wantEvent(t, event.StoreError, 0)
		ended := make(chan error)
		reconcile := func() { ended <- s.Reconcile(t.Context(), finding(core.Happened), soon) }
		go reconcile()
		<-store.lists
		shutdown(t, s)
		began := time.Now()
		if err := <-ended; err != nil || time.Since(began) > time.Minute {
			t.Errorf("Reconcile returned %v after %v", err, time.Since(began))
		}
		go reconcile()
		if err := <-ended; err != nil || len(store.lists) > 0 {
			t.Errorf("Reconcile returned %v, and has searched %d times", err, len(store.lists))
		}
	})
}
