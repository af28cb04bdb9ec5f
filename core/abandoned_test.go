package core_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// deadStore applies claims and loses every later call, as if the process was killed
// right after its claim.
func deadStore(store storage.Store) storage.Store {
	return &faultyStore{Store: store, complete: failUnapplied, release: failUnapplied, extend: failUnapplied}
}

// crash claims the key k for a process that is killed in its handler.
func crash(t *testing.T, store storage.Store) {
	t.Helper()
	s := newService(t, deadStore(store), func(http.ResponseWriter, *http.Request) {}, policy.LockTTL(time.Second))
	s.post(t.Context(), "k", payment)
	testkit.Abort(s)
}

// abandonedStore returns a store in which the key "k" is abandoned: its process has
// crashed, and its lease has ended.
func abandonedStore(t *testing.T) *faultyStore {
	t.Helper()
	store := newFaultyStore()
	crash(t, store)
	advance(time.Second)
	return store
}

// Cases 3 and 4: a key is blocked for the lease and not for the TTL, then the
// next attempt runs, with a higher number, and an event reports that.
func TestAbandonedKeyIsReexecuted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		crash(t, store)
		var attempt uint64
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			lease, _ := core.LeaseFrom(r.Context())
			attempt = lease.Attempt
			created(w, r)
		})
		advance(999 * time.Millisecond)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		s.wantRuns(t, 0)
		advance(time.Millisecond)
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		wantFirst(t, s.post(t.Context(), "k", payment))
		testkit.Equal(t, attempt, 2, "the attempt")
		s.wantEvent(t, event.LeaseExpired, 2) // by the 422 and by the take-over
	})
}

func TestAbandonedKeyIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		crash(t, store)
		s := newService(t, store, created, policy.OnAbandoned(policy.Refuse))
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		advance(time.Second)
		for range 2 {
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		}
		s.wantRuns(t, 0)
		s.wantEvent(t, event.LeaseExpired, 2)
		s.wantEvent(t, event.OutcomeUnknown, 2)
	})
}

func TestAbandonedKeyIsRecovered(t *testing.T) {
	t.Parallel()
	find := func(ctx context.Context, a policy.Abandoned) (*policy.Response, error) {
		want := policy.Abandoned{Key: "k", Scope: "alice", Method: http.MethodPost, Path: "/payments", Attempt: 2}
		if a != want || core.KeyFrom(ctx) != "k" {
			t.Errorf("RecoverFunc got %+v", a)
		}
		return &policy.Response{ // with the length of the provider's reply
			Status: http.StatusCreated, Header: http.Header{"Location": {"/payments/p1"}, "Content-Length": {"99"}}, Body: []byte(`{"payment_id":"p1"}`),
		}, nil
	}
	type row struct {
		option policy.Option
		runs   int64
		want   func(t *testing.T, s *service)
	}
	testkit.EachInBubble(t, map[string]row{
		"it had happened": {policy.OnAbandoned(policy.Recover(find)), 0, func(t *testing.T, s *service) {
			for range 2 {
				w := s.post(t.Context(), "k", payment)
				wantReplay(t, w)
				testkit.Equal(t, w.Header().Get("Location")+w.Header().Get("Content-Length"), "/payments/p1", "the header is %v", w.Header())
			}
		}},
		"it had not": {recovering(nil, nil), 1, func(t *testing.T, s *service) {
			wantFirst(t, s.post(t.Context(), "k", payment))
		}},
		"outcome unknown": {recovering(nil, errors.New("provider down")), 0, func(t *testing.T, s *service) {
			for range 3 { // each retry calls the RecoverFunc again, without waiting for a lease
				w := s.post(t.Context(), "k", payment)
				wantCode(t, w, http.StatusConflict, problem.OutcomeUnknown)
				testkit.Equal(t, w.Header().Get("Retry-After"), "5", "the provider may be back later, and it got")
				advance(time.Millisecond)
			}
			s.wantEvent(t, event.RecoverError, 3)
		}},
		"it says nonsense": {recovering(&policy.Response{}, nil), 0, func(t *testing.T, s *service) {
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		}},
	}, func(t *testing.T, row row) {
		s := newService(t, abandonedStore(t), created, row.option)
		row.want(t, s)
		s.wantRuns(t, row.runs)
		shutdown(t, s)
	})
}

// One caller at a time runs the RecoverFunc, in all processes.
func TestOneCallerRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := abandonedStore(t)
		calls := make(chan struct{}, 10)
		find := lookingInto(func(context.Context, policy.Abandoned) {
			calls <- struct{}{}
			advance(time.Minute)
		})
		here, there := newService(t, store, created, find), newService(t, store, created, find)
		var group sync.WaitGroup
		group.Go(func() { wantFirst(t, here.post(t.Context(), "k", payment)) })
		advance(30 * time.Second)
		wantCode(t, here.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		wantCode(t, there.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		group.Wait()
		testkit.Equal(t, len(calls), 1, "runs of the RecoverFunc")
	})
}
