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
	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 35: a duplicate waits for a handler of another process, under each OnStoreError.
func TestWaitAcrossProcesses(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.StoreErrorMode{policy.FailClosed, policy.FailOpen} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			opts := []policy.Option{policy.Wait(5 * time.Second), policy.OnStoreError(mode)}
			slow := createdAfter(3 * time.Second)
			here, there := newService(t, store, slow, opts...), newService(t, store, slow, opts...)
			var group sync.WaitGroup
			defer group.Wait()
			group.Go(func() { wantFirst(t, here.post(t.Context(), "k", payment)) })
			synctest.Wait()
			// The store fails for a second while the duplicate waits. The duplicate has
			// seen that a handler runs, so FailOpen does not run a second handler.
			setAcquire := store.set(&store.acquire)
			time.AfterFunc(time.Second, func() { setAcquire(failUnapplied) })
			time.AfterFunc(2*time.Second, func() { setAcquire(nil) })
			wantReplay(t, there.post(t.Context(), "k", payment))
			there.wantRuns(t, 0)
		})
	}
}

// Case 35: the holder dies, and the policy decides within the waiting time.
func TestWaitForAHolderThatDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		claimOfAnotherVersion(t, store, 2*time.Second) // and no process renews it
		start := time.Now()
		s := newService(t, store, created, policy.Wait(10*time.Second))
		wantFirst(t, s.post(t.Context(), "k", payment))
		if waited := time.Since(start); waited < 2*time.Second || waited > 3*time.Second {
			t.Errorf("took over after %v, want when the lease has ended", waited)
		}
	})
}

// claimOfAnotherVersion claims the key k, with a fingerprint that this version does not compute.
func claimOfAnotherVersion(t *testing.T, store storage.Store, lock time.Duration) {
	t.Helper()
	testkit.Win(t, store, storage.Claim{
		Key: storage.Key("alice", http.MethodPost, "/payments", "k"), Token: storage.NewToken(), Fingerprint: "another version's",
		Digest: digestOf(payment), LockTTL: lock, Retain: time.Hour,
	})
}

// Case 36: a renewal hangs. The handler's context ends with the lease and not with the
// call, for a store that obeys the call's context and for a store that ignores it.
func TestHangingRenewalDoesNotOutliveTheLease(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]func(func() error) error{
		"obeys": hang,
		"deaf":  func(func() error) error { advance(10 * time.Second); return errStoreDown },
	}, func(t *testing.T, fault func(func() error) error) {
		store := newFaultyStore()
		store.set(&store.extend)(fault)
		var cause error
		var ended time.Duration
		start := time.Now()
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			untilCancelled(&cause)(w, r)
			ended = time.Since(start)
		}, policy.LockTTL(3*time.Second), policy.StoreTimeout(2*time.Second))
		s.post(t.Context(), "k", payment)
		if !errors.Is(cause, storage.ErrLeaseLost) || ended != 3*time.Second {
			t.Errorf("the context ended after %v by %v, want after the 3s of its lease", ended, cause)
		}
		synctest.Wait() // until the event, which follows the end of the context
		s.wantEvent(t, event.LeaseLost, 1)
	})
}

// Case 37: a process that may have lost its lease shows no response that the store has
// not confirmed. The engine continues to settle, and the retry gets the stored
// response, in this process and in every other.
func TestUnconfirmedResponseIsNotShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, createdAfter(10*time.Second), policy.LockTTL(3*time.Second))
		store.set(&store.extend, &store.complete)(hang)
		first := s.post(t.Context(), "k", payment)
		wantCode(t, first, http.StatusServiceUnavailable, problem.NotConfirmed)
		if first.Header().Get("Retry-After") == "" {
			t.Error("the response has no Retry-After")
		}
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		store.set(&store.extend, &store.complete)(nil)
		advance(time.Second)
		wantReplay(t, s.post(t.Context(), "k", payment))
		wantReplay(t, newService(t, store, created).post(t.Context(), "k", payment))
		s.wantRuns(t, 1)
	})
}

// Case 37: a response was shown within the lease, and the store has not confirmed it
// when the lease ends. From then on this process does not show the response, because
// another process may have stored a different response.
func TestUnconfirmedResponseIsNotReplayedAfterTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, created, policy.LockTTL(3*time.Second))
		store.set(&store.extend, &store.complete)(hang)
		wantFirst(t, s.post(t.Context(), "k", payment))
		wantReplay(t, s.post(t.Context(), "k", payment))
		advance(3 * time.Second)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
	})
}

// Case 37: a stream, too, begins only when it is recorded or the lease is held.
func TestUnconfirmedStreamIsNotShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.extend, &store.complete)(hang)
		s := newService(t, store, func(w http.ResponseWriter, _ *http.Request) {
			advance(10 * time.Second)
			w.WriteHeader(http.StatusCreated)
			testkit.Fails(t, "Flush", http.NewResponseController(w).Flush(), core.ErrNotConfirmed)
		}, policy.LockTTL(3*time.Second))
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.NotConfirmed)
	})
}

// suspendedStore is on a machine that can be suspended. The wall clock then continues,
// and the monotonic clock, which is the bubble's, stops.
type suspendedStore struct {
	storage.Store
	mu    sync.Mutex
	ahead time.Duration
}

func (s *suspendedStore) WallClock() machine.WallClock {
	return func(now time.Time) time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return now.Round(0).Add(s.ahead)
	}
}

func (s *suspendedStore) suspend(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Case 41: the machine is suspended for longer than the lease. The handler sees that at
// once in Err, and within a second in Done. Its response is shown if the store confirms
// the response.
func TestSuspendedMachineHasLostItsLease(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]func(context.Context) error{
		"calls Err":      func(ctx context.Context) error { return ctx.Err() },
		"waits for Done": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}, func(t *testing.T, look func(context.Context) error) {
		store := &suspendedStore{Store: memstore.New()}
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			advance(time.Second)
			store.suspend(time.Minute)
			thawed := time.Now()
			if err := look(r.Context()); err == nil || !errors.Is(context.Cause(r.Context()), storage.ErrLeaseLost) {
				t.Errorf("the context ended with %v by %v", err, context.Cause(r.Context()))
			}
			if noticed := time.Since(thawed); noticed > time.Second {
				t.Errorf("noticed after %v", noticed)
			}
			created(w, r)
		}, policy.LockTTL(30*time.Second))
		wantFirst(t, s.post(t.Context(), "k", payment)) // the store has confirmed it
		synctest.Wait()                                 // until the event, which follows the end of the context
		s.wantEvent(t, event.LeaseLost, 1)
	})
}

// Case 41: the machine is suspended during the claim. The lease may have ended before
// the handler begins, so the claim is repeated.
func TestSuspendedWithinTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faulty := newFaultyStore()
		store := &suspendedStore{Store: faulty}
		var once sync.Once
		faulty.set(&faulty.acquire)(func(apply func() error) error {
			err := apply()
			once.Do(func() { store.suspend(time.Hour) })
			return err
		})
		s := newService(t, store, created)
		wantFirst(t, s.post(t.Context(), "k", payment))
		wantCalls(t, &faulty.acquires, 2)
	})
}

// Case 38: the right is revoked while handlers run. The engine does not repeat the call
// for an hour, but reports that the response is lost.
func TestForbiddenSettlementIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.complete)(failing(storage.ErrStoreForbidden))
		s := newService(t, store, created)
		wantFirst(t, s.post(t.Context(), "k", payment))
		advance(time.Second)
		s.wantEvent(t, event.ResponseLost, 1)
		if n := store.completes.Load(); n > 2 {
			t.Errorf("%d settlements of a store that forbids them", n)
		}
	})
}

// Case 40: pods of a rolling deploy exclude different fields. A retry with the same
// bytes is a replay in both directions, and another payload is refused.
func TestRollingDeployOfExcludeFields(t *testing.T) {
	t.Parallel()
	const sent, again, other = `{"amount":100,"at":"12:00"}`, `{"amount":100,"at":"12:07"}`, `{"amount":200,"at":"12:00"}`
	testkit.EachInBubble(t, map[string]bool{"a name is added": false, "a name is removed": true}, func(t *testing.T, oldExcludes bool) {
		store := memstore.New()
		excluding := newService(t, store, created, policy.ExcludeFields("at"))
		plain := newService(t, store, created)
		before, after := plain, excluding
		if oldExcludes {
			before, after = excluding, plain
		}
		wantFirst(t, before.post(t.Context(), "k", sent))
		wantReplay(t, after.post(t.Context(), "k", sent))
		wantReplay(t, before.post(t.Context(), "k", sent))
		wantCode(t, after.post(t.Context(), "k", other), http.StatusUnprocessableEntity, problem.KeyReused)
		if oldExcludes {
			wantReplay(t, before.post(t.Context(), "k", again))
		}
		wantFirst(t, after.post(t.Context(), "k2", sent))
		wantReplay(t, before.post(t.Context(), "k2", sent))
		wantCode(t, before.post(t.Context(), "k2", other), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}

// A retry of a request that was admitted under another policy runs no handler. The problem's code, or "" for a replay.
func TestRetryUnderAnotherPolicy(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	wantFirst(t, newService(t, store, created).post(t.Context(), "k", payment))
	for code, changes := range map[string][]policy.Option{
		problem.KeyReused:    {policy.IncludeHeaders("Authorization")},
		problem.KeyInvalid:   {policy.KeyFormat(policy.UUIDKey), policy.KeyAge(time.Hour)},
		problem.BodyTooLarge: {policy.MaxRequestBytes(1)},
		"":                   {policy.RedactFields("payment_id"), policy.RememberHours(1), policy.ExactBytes(true)},
	} {
		for _, change := range changes {
			if retry := newService(t, store, created, change).post(t.Context(), "k", payment); code == "" {
				wantReplay(t, retry)
			} else {
				wantCode(t, retry, retry.Code, code)
			}
		}
	}
}

// Case 40: the same holds for a request in flight, or abandoned, in another process.
func TestRollingDeployWhileInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, created)
		claimOfAnotherVersion(t, store, 10*time.Second)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		wantCode(t, s.post(t.Context(), "k", `{"amount":1}`), http.StatusUnprocessableEntity, problem.KeyReused)
		advance(11 * time.Second)
		wantCode(t, s.post(t.Context(), "k", `{"amount":1}`), http.StatusUnprocessableEntity, problem.KeyReused)
		wantFirst(t, s.post(t.Context(), "k", payment))
	})
}

// Case 49: two services on one store, with one scope, have their own records.
func TestServicesShareAStore(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	serve := func(service string) *httptest.ResponseRecorder {
		s := newServiceOf(t, store, created, nil, core.WithService(service))
		w := s.post(t.Context(), "k", payment)
		if record, err := store.Lookup(t.Context(), s.StorageKey("alice", http.MethodPost, "/payments", "k")); err != nil || record == nil {
			t.Errorf("%s has no record under its storage key: %v", service, err)
		}
		return w
	}
	wantFirst(t, serve("payments"))
	wantFirst(t, serve("refunds"))
	wantReplay(t, serve("payments"))
}
