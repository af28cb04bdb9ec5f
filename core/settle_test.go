package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 13: the response is sent although the store fails, and is stored as soon as the
// store recovers. Meanwhile no handler runs twice, in this process or in another.
func TestResponseIsStoredLaterWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setComplete := store.set(&store.complete)
		here := newService(t, store, created, policy.LockTTL(3*time.Second))
		there := newService(t, store, created, policy.LockTTL(3*time.Second))

		setComplete(failUnapplied)
		wantFirst(t, here.post(t.Context(), "k", payment))
		for range 20 { // far longer than the lease, which is renewed
			advance(time.Second)
			wantReplay(t, here.post(t.Context(), "k", payment))
			wantCode(t, there.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		}
		wantCode(t, here.post(t.Context(), "k", `{"amount":200}`), http.StatusUnprocessableEntity, problem.KeyReused)

		setComplete(nil)
		advance(time.Second)
		wantReplay(t, there.post(t.Context(), "k", payment))
		here.wantRuns(t, 1)
		there.wantRuns(t, 0)
		here.wantEvent(t, event.SettleDeferred, 1)
		here.wantEvent(t, event.Completed, 1)
		shutdown(t, here)
	})
}

// Case 13: the store did apply the completion, and only its reply was lost.
func TestCompletionThatWasAppliedIsRepeatedUnnoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faulty := newFaultyStore()
		store := &recording{Store: faulty}
		setComplete := faulty.set(&faulty.complete)
		setComplete(func(apply func() error) error {
			setComplete(nil)
			return failApplied(apply)
		})
		s := newService(t, store, created)
		wantFirst(t, s.post(t.Context(), "k", payment))
		advance(time.Second)
		wantReplay(t, s.post(t.Context(), "k", payment))
		s.wantRuns(t, 1)
		if tries := store.results; len(tries) != 2 || tries[0].Repeated || !tries[1].Repeated {
			t.Errorf("the completions are %+v, want a second one that says that it is repeated", tries)
		}
		s.wantEvent(t, event.ResponseLost, 0)
	})
}

func TestSettleBudgetEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.complete, &store.extend)(failUnapplied)
		s := newServiceOf(t, store, created, nil, core.WithSettleBudget(time.Minute))
		s.post(t.Context(), "k", payment)
		advance(time.Minute)
		synctest.Wait()
		s.wantEvent(t, event.ResponseLost, 1)
	})
}

// The background gives up at once when another attempt has claimed the key. The
// response that the client got is lost, and an event reports that error.
func TestResponseLostToAnotherAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.complete)(thenLost())
		s := newService(t, store, created)
		wantFirst(t, s.post(t.Context(), "k", payment))
		advance(time.Second)
		s.wantEvent(t, event.ResponseLost, 1)
		wantCalls(t, &store.completes, 2)
	})
}

// A release that fails is repeated. Until it succeeds, no handler runs for the key.
func TestReleaseThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setRelease := store.set(&store.release)
		s := newService(t, store, responding(http.StatusServiceUnavailable))
		setRelease(failUnapplied)
		s.post(t.Context(), "k", payment)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		setRelease(nil)
		advance(time.Second)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 2)
		s.wantEvent(t, event.DeleteKey, 2)

		setRelease(thenLost()) // another attempt has taken the key over, so there is no key to release
		s.post(t.Context(), "k2", payment)
		advance(time.Second)
		s.wantEvent(t, event.LeaseLost, 1)
	})
}

// overtaken posts a request whose handler ignores the end of its lease. Meanwhile the next attempt
// runs, in winner. It returns the late response.
func overtaken(t *testing.T, store *faultyStore, handle http.HandlerFunc) (stale, winner *service, late *httptest.ResponseRecorder) {
	t.Helper()
	stale = newService(t, store, func(w http.ResponseWriter, r *http.Request) {
		advance(time.Minute)
		handle(w, r)
	}, policy.LockTTL(3*time.Second))
	winner = newService(t, store, created, policy.LockTTL(3*time.Second))
	store.set(&store.extend)(failUnapplied)
	ended := make(chan *httptest.ResponseRecorder)
	go func() { ended <- stale.post(t.Context(), "k", payment) }()
	advance(10 * time.Second)
	wantFirst(t, winner.post(t.Context(), "k", payment))
	winner.wantEvent(t, event.LeaseExpired, 1)
	return stale, winner, <-ended
}

// A hook of the store's client may choose the tenant by a value of the request's context. So calls
// in the background have the values too: else they reach another tenant, and a retry runs again.
func TestCallsInTheBackgroundHaveTheValues(t *testing.T) {
	t.Parallel()
	type tenant struct{}
	testkit.EachInBubble(t, map[string]func(store *faultyStore) http.HandlerFunc{
		"a response and its lease": func(store *faultyStore) http.HandlerFunc {
			store.set(&store.complete)(failUnapplied)
			return created
		},
		"a release": func(store *faultyStore) http.HandlerFunc {
			store.set(&store.release)(failUnapplied)
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		},
		"a claim that timed out": func(store *faultyStore) http.HandlerFunc {
			store.set(&store.acquire)(hang)
			return created
		},
	}, func(t *testing.T, prepare func(*faultyStore) http.HandlerFunc) {
		store := newFaultyStore()
		store.look = func(ctx context.Context) {
			if ctx.Value(tenant{}) != "a" {
				t.Error("a call of the store has no values of the request's context")
			}
		}
		s := newService(t, store, prepare(store))
		s.post(context.WithValue(t.Context(), tenant{}, "a"), "k", payment)
		advance(time.Minute)
		if store.completes.Load()+store.releases.Load() < 2 {
			t.Error("nothing was done in the background")
		}
	})
}

// Case 5, 6: a holder that lost its lease changes no record, and its client gets no
// response other than the stored response.
func TestStaleHolderCannotSettle(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]http.HandlerFunc{
		"responds": created,
		"streams": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("Flush returned %v", err)
			}
			if _, err := w.Write([]byte("more")); !errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("Write returned %v", err)
			}
			if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("Hijack returned %v", err)
			}
		},
	}, func(t *testing.T, handle http.HandlerFunc) {
		stale, winner, late := overtaken(t, newFaultyStore(), handle)
		wantCode(t, late, http.StatusConflict, problem.InProgress)
		wantReplay(t, stale.post(t.Context(), "k", payment))
		winner.wantRuns(t, 1)
	})
}

// Cases 7 and 37: a process is frozen until after the lease, and its settlement then
// misses the deadline. Such a call does not show which process holds the key. The
// response is not shown, and the retry gets the stored response.
func TestSettlementCutOffAfterTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		frozen, _, late := overtaken(t, store, func(w http.ResponseWriter, r *http.Request) {
			store.set(&store.complete)(failingOnce(context.DeadlineExceeded))
			created(w, r)
		})
		wantCode(t, late, http.StatusServiceUnavailable, problem.NotConfirmed)
		testkit.Equal(t, late.Header().Get("Retry-After"), "1", "no Retry-After: %v", late.Header())
		wantCode(t, frozen.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		advance(time.Second)
		wantReplay(t, frozen.post(t.Context(), "k", payment))
		frozen.wantEvent(t, event.ResponseLost, 0)
		frozen.wantEvent(t, event.LeaseLost, 2) // the handler's, and the settlement's
	})
}

// Case 6: a stale holder that panics or fails releases no key.
func TestStaleHolderCannotRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, winner, late := overtaken(t, newFaultyStore(), responding(http.StatusServiceUnavailable))
		testkit.Equal(t, late.Code, http.StatusServiceUnavailable, "the status of the handler's own error")
		wantReplay(t, winner.post(t.Context(), "k", payment))
	})
}

// A stream is sent even if the store fails to record it.
func TestStreamWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setComplete := store.set(&store.complete)
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_ = http.NewResponseController(w).Flush()
			if failure.MarkRetryable(r.Context()) {
				t.Error("a mark counted after the response was settled")
			}
			_, _ = w.Write([]byte("all of it"))
		})
		setComplete(failUnapplied)
		if w := s.post(t.Context(), "k", payment); w.Code != http.StatusCreated || w.Body.String() != "all of it" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
		setComplete(nil)
		advance(time.Second)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
		s.wantRuns(t, 1)
	})
}

// A mark that comes while a stream begins, from another goroutine of the handler, does not
// release the stream's key.
func TestMarkWhileAStreamBegins(t *testing.T) {
	t.Parallel()
	var request *http.Request
	s := newService(t, newFaultyStore(), func(w http.ResponseWriter, r *http.Request) {
		request = r
		created(w, r)
		_ = http.NewResponseController(w).Flush()
	}, policy.Classifier(func(outcome failure.Outcome) failure.Class {
		defer failure.MarkRetryable(request.Context())
		return failure.Classify(outcome)
	}))
	wantFirst(t, s.post(t.Context(), "k", payment))
	wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
	s.wantRuns(t, 1)
}

// A mark that comes after the handler was cut off, from another goroutine, does not keep a
// response that tells the client to try again.
func TestMarkAfterTheHandlerWasCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var request *http.Request
		s := newService(t, newFaultyStore(), func(_ http.ResponseWriter, r *http.Request) {
			request = r
			<-r.Context().Done()
		}, policy.MaxRun(time.Second), policy.Classifier(func(outcome failure.Outcome) failure.Class {
			defer failure.MarkExecuted(request.Context())
			return failure.Classify(outcome)
		}))
		for range 2 {
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.HandlerCancelled)
		}
		s.wantRuns(t, 2)
	})
}

// A stream is recorded before its first byte. MaxRun still limits the handler, although
// the lease is no longer renewed.
func TestStreamKeepsItsContextUntilMaxRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		start := time.Now()
		var cause error
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			wantCalls(t, &store.completes, 1)
			<-r.Context().Done()
			cause = context.Cause(r.Context())
		}, policy.LockTTL(3*time.Second), policy.MaxRun(10*time.Second))
		s.post(t.Context(), "k", payment)
		if !errors.Is(cause, core.ErrRunTooLong) || time.Since(start) != 10*time.Second {
			t.Errorf("cancelled after %v by %v", time.Since(start), cause)
		}
		wantCalls(t, &store.extends, 0)
	})
}

// An event's Duration counts from the request's arrival, with the waits for a store
// that recovers and for a concurrent request.
func TestEventsCountTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setComplete := store.set(&store.complete)
		s := newService(t, store, createdAfter(10*time.Second), policy.Wait(time.Minute))
		setComplete(failUnapplied)
		var group sync.WaitGroup
		group.Go(func() { s.post(t.Context(), "k", payment) })
		advance(time.Second)
		impatient, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		s.post(impatient, "k", payment)
		group.Wait()
		advance(20 * time.Second)
		setComplete(nil)
		advance(time.Second)

		least := map[event.Result]time.Duration{event.InProgress: 2 * time.Second, event.Completed: 30 * time.Second}
		for result, want := range least {
			s.wantEvent(t, result, 1)
			if got := s.events.last(result).Duration; got < want {
				t.Errorf("the event %s says %v, want %v at least", result, got, want)
			}
		}
	})
}
