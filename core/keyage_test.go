package core_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// aged is the policy of the tests: two hours with a response, and keys of at most an hour.
func aged(opts ...policy.Option) []policy.Option {
	return append([]policy.Option{policy.TTLHours(2), policy.KeyAge(time.Hour)}, opts...)
}

// keyOf returns a UUID of version 7 that was made at a time.
func keyOf(made time.Time) string {
	hex := fmt.Sprintf("%012x", made.UnixMilli())
	return hex[:8] + "-" + hex[8:] + "-7cc3-98c4-dc0c0c07398f"
}

// oldKey returns a key that is exactly as old as KeyAge.
func oldKey() string { return keyOf(time.Now().Add(-time.Hour)) }

// wantNoRecord checks that a store has no record.
func wantNoRecord(t *testing.T, store storage.Inspector) {
	t.Helper()
	if found, err := store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 10}); err != nil || len(found.Entries) > 0 {
		t.Errorf("the store has %v, %v, want no record", found.Entries, err)
	}
}

// A late retry runs nothing, for ever, and a record decides as on any route.
func TestKeyAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newService(t, store, created, aged()...)
		key := keyOf(time.Now())
		wantFirst(t, s.post(t.Context(), key, payment))
		for _, d := range []time.Duration{time.Hour - time.Millisecond, time.Millisecond, time.Hour - time.Millisecond} {
			advance(d)
			wantReplay(t, s.post(t.Context(), key, payment))
			wantCode(t, s.post(t.Context(), key, `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		}
		for _, d := range []time.Duration{time.Millisecond, time.Minute, 365 * 24 * time.Hour} {
			advance(d)
			late := s.post(t.Context(), key, payment)
			wantCode(t, late, http.StatusConflict, problem.KeyExpired)
			if late.Header().Get("Retry-After") != "" || !strings.Contains(late.Body.String(), "This Idempotency-Key is older than 1h0m0s") {
				t.Errorf("got %v %s, want a final problem that names the age", late.Header(), late.Body)
			}
			wantNoRecord(t, store)
		}
		s.wantRuns(t, 1)
		s.wantEvent(t, event.KeyExpired, 3)
		s.wantEvent(t, event.Execute, 1)
	})
}

// A key that the client's clock made five minutes early is refused before its record ends.
func TestKeyAgeOfAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), created, policy.TTLHours(1), policy.Remember(time.Hour), policy.KeyAge(2*time.Hour-policy.KeyClockTolerance))
		key := keyOf(time.Now().Add(policy.KeyClockTolerance))
		wantFirst(t, s.post(t.Context(), key, payment))
		for range 3 * 60 {
			advance(time.Minute)
			s.post(t.Context(), key, payment)
		}
		s.wantRuns(t, 1)
		wantCode(t, s.post(t.Context(), key, payment), http.StatusConflict, problem.KeyExpired)
	})
}

// A young key costs no round trip, and an old one a second.
func TestKeyAgeRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, created, aged()...)
		want := func(name string, acquires, completes, releases int64) {
			t.Helper()
			if a, c, r := store.acquires.Swap(0), store.completes.Swap(0), store.releases.Swap(0); a != acquires || c != completes || r != releases || store.extends.Load() > 0 {
				t.Errorf("%s makes %d claims, %d completions and %d releases, want %d, %d and %d", name, a, c, r, acquires, completes, releases)
			}
		}
		key := keyOf(time.Now())
		wantFirst(t, s.post(t.Context(), key, payment))
		want("a young key", 1, 1, 0)
		wantReplay(t, s.post(t.Context(), key, payment))
		want("its replay", 1, 0, 0)
		wantCode(t, s.post(t.Context(), oldKey(), payment), http.StatusConflict, problem.KeyExpired)
		want("an old key", 1, 0, 1)
		wantCode(t, s.post(t.Context(), "order-17", payment), http.StatusBadRequest, problem.KeyInvalid)
		want("a key without a time", 0, 0, 0)
	})
}

// No handler runs for concurrent requests with one old key, whether they wait or not.
func TestKeyAgeOfConcurrentRequests(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			store.set(&store.release)(func(apply func() error) error {
				advance(100 * time.Millisecond) // so that the others find the claim
				return apply()
			})
			s := newService(t, store, created, aged(policy.Wait(wait))...)
			key := oldKey()
			testkit.Concurrently(20, func(int) {
				w := s.post(t.Context(), key, payment)
				if busy := strings.Contains(w.Body.String(), problem.InProgress) && wait == 0; !busy {
					wantCode(t, w, http.StatusConflict, problem.KeyExpired)
				}
			})
			wantCode(t, s.post(t.Context(), key, payment), http.StatusConflict, problem.KeyExpired)
			s.wantRuns(t, 0)
			wantNoRecord(t, store.Store.(storage.Inspector))
		})
	}
}

// A process that dies between the claim of an old key and its release leaves no abandoned
// record, after which the handler would run.
func TestKeyAgeAfterACrash(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.AbandonedMode{policy.Reexecute, policy.Recover(wantNoRecovery(t))} {
		synctest.Test(t, func(t *testing.T) {
			store, key := memstore.New(), oldKey()
			opts := aged(policy.LockTTL(10*time.Second), policy.RememberHours(1), policy.OnAbandoned(mode))
			crashed := newService(t, deadStore(store), created, opts...)
			wantCode(t, crashed.post(t.Context(), key, payment), http.StatusConflict, problem.KeyExpired)
			testkit.Abort(crashed)

			s := newService(t, store, created, opts...)
			wantCode(t, s.post(t.Context(), key, payment), http.StatusConflict, problem.InProgress)
			advance(10 * time.Second)
			wantCode(t, s.post(t.Context(), key, payment), http.StatusConflict, problem.KeyExpired)
			wantNoRecord(t, store)
			s.wantRuns(t, 0)
		})
	}
}

// A release that fails is repeated.
func TestKeyAgeWhenTheReleaseFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.release)(failUnapplied)
		s := newService(t, store, created, aged()...)
		key := oldKey()
		wantCode(t, s.post(t.Context(), key, payment), http.StatusConflict, problem.KeyExpired)
		advance(10 * time.Second)
		store.set(&store.release)(nil)
		advance(time.Second)
		wantCode(t, s.post(t.Context(), key, payment), http.StatusConflict, problem.KeyExpired)
		wantNoRecord(t, store.Store.(storage.Inspector))
	})
}

// An abandoned attempt decides as ever, and its next one is not forgotten with its lease.
func TestKeyAgeOfAnAbandonedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newService(t, store, uncertain, aged()...)
		key := keyOf(time.Now())
		s.post(t.Context(), key, payment)
		advance(time.Hour)
		s.post(t.Context(), key, payment) // takes the key over
		advance(time.Hour)
		s.post(t.Context(), key, payment)
		s.wantRuns(t, 3)
		s.wantEvent(t, event.KeyExpired, 0)
		advance(2*time.Hour + time.Minute) // the record is gone
		wantCode(t, s.post(t.Context(), key, payment), http.StatusConflict, problem.KeyExpired)
		s.wantRuns(t, 3)
	})
}

// A key that was released with steps continues, and one that was released without is
// refused.
func TestKeyAgeOfAReleasedKey(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]bool{"with a step": true, "without": false}, func(t *testing.T, withStep bool) {
		store, steps := memstore.New(), 0
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			if withStep {
				_, err := core.Step(r.Context(), "charge", func(context.Context) (int, error) { steps++; return 7, nil })
				if err != nil {
					t.Error(err)
				}
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}, aged()...)
		key := keyOf(time.Now())
		s.post(t.Context(), key, payment)
		advance(time.Hour)
		late := s.post(t.Context(), key, payment)
		if withStep {
			s.wantRuns(t, 2)
			if late.Code != http.StatusServiceUnavailable || steps != 1 {
				t.Errorf("got %d after %d calls of the step, want the handler's 503 after one", late.Code, steps)
			}
			return
		}
		wantCode(t, late, http.StatusConflict, problem.KeyExpired)
		s.wantRuns(t, 1)
		wantNoRecord(t, store)
	})
}
