package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
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

// limitedStore is a faultyStore that counts the keys of scopes.
type limitedStore struct {
	*faultyStore
	records     *memstore.Store
	admit, keep func(apply func() error) error
	limits      atomic.Int64 // calls of both
}

func newLimitedStore() *limitedStore {
	s := &limitedStore{faultyStore: newFaultyStore()}
	s.records = s.Store.(*memstore.Store)
	return s
}

func (s *limitedStore) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (a storage.Admission, err error) {
	if strings.Contains(p.Scope, "alice") || len(p.Scope) != 64 {
		return storage.Admission{}, errors.New("the store sees the scope " + p.Scope)
	}
	if failed := s.through(ctx, &s.limits, &s.admit, func(storage.Store) error { a, err = s.records.Admit(ctx, p, ttl, limit); return err }); failed != nil {
		return storage.Admission{}, failed
	}
	return a, nil
}

func (s *limitedStore) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	return s.through(ctx, &s.limits, &s.keep, func(storage.Store) error { return s.records.Keep(ctx, p, ttl) })
}

// newLimited is newService with a limit.
func newLimited(t *testing.T, store storage.Store, limit core.ScopeLimit, handle http.HandlerFunc, opts ...policy.Option) *service {
	t.Helper()
	return newServiceOf(t, store, handle, opts, core.WithScopeLimit(limit))
}

// postOf is post of another client.
func (s *service) postOf(client, key string) *httptest.ResponseRecorder {
	r := newPost(context.Background(), key, payment)
	r.Header.Set("Authorization", "Bearer "+client)
	return testkit.Serve(s.handler, r)
}

func wantLimited(t *testing.T, w *httptest.ResponseRecorder, retryAfter string) {
	t.Helper()
	wantCode(t, w, http.StatusTooManyRequests, problem.ScopeLimited)
	testkit.Equal(t, w.Header().Get("Retry-After"), retryAfter, "Retry-After")
}

// A process stands still while the store admits its key. The lease has ended, and another pod may
// run the key: the handler does not start, although the policy is FailOpen.
func TestScopeLimitReplyAfterTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, limit := newLimitedStore(), core.ScopeLimit{InFlight: 2}
		options := []policy.Option{policy.LockTTL(time.Second), policy.StoreTimeout(5 * time.Second), policy.OnStoreError(policy.FailOpen)}
		one, other := newLimited(t, store, limit, created, options...), newLimited(t, store, limit, created, options...)
		setAdmit := store.set(&store.admit)
		setAdmit(func(apply func() error) error {
			setAdmit(nil)
			advance(1500 * time.Millisecond)
			wantFirst(t, other.post(t.Context(), "a", payment))
			return apply()
		})
		wantCode(t, one.post(t.Context(), "a", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		one.wantRuns(t, 0)
		other.wantRuns(t, 1)
		advance(time.Minute)
		wantReplay(t, one.post(t.Context(), "a", payment))
	})
}

// Over the bound of keys in flight, at two pods, only a new key is refused.
func TestScopeLimitInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, end := newLimitedStore(), make(chan struct{})
		handle := func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(core.KeyHeader) != "before" {
				<-end
			}
			created(w, r)
		}
		limit := core.ScopeLimit{InFlight: 2}
		one, other := newLimited(t, store, limit, handle), newLimited(t, store, limit, handle)
		wantFirst(t, one.post(t.Context(), "before", payment))
		ended := make(chan *httptest.ResponseRecorder)
		for _, key := range []string{"a", "b"} {
			go func() { ended <- one.post(t.Context(), key, payment) }()
		}
		synctest.Wait()
		records := store.records.Len()
		for _, s := range []*service{one, other} {
			wantLimited(t, s.post(t.Context(), "c", payment), "1")
			wantReplay(t, s.post(t.Context(), "before", payment))
			wantCode(t, s.post(t.Context(), "a", payment), http.StatusConflict, problem.InProgress)
			wantCode(t, s.post(t.Context(), "a", `{}`), http.StatusUnprocessableEntity, problem.KeyReused)
			s.wantEvent(t, event.ScopeLimited, 1)
		}
		testkit.Equal(t, store.records.Len(), records, "records after the refusals")
		end <- struct{}{}
		wantFirst(t, <-ended)
		go func() { ended <- other.post(t.Context(), "c", payment) }() // the same key, after its refusal
		synctest.Wait()
		wantLimited(t, other.post(t.Context(), "d", payment), "1")
		close(end)
		wantFirst(t, <-ended)
		wantFirst(t, <-ended)
		wantFirst(t, other.post(t.Context(), "d", payment))
	})
}

// The bound of a minute says when it ends, is one scope's alone, and lets replays pass.
func TestScopeLimitPerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, newLimitedStore(), core.ScopeLimit{PerMinute: 2}, created)
		wantFirst(t, s.post(t.Context(), "a", payment))
		advance(10 * time.Second)
		wantFirst(t, s.post(t.Context(), "b", payment))
		wantLimited(t, s.post(t.Context(), "c", payment), "50")
		wantFirst(t, s.postOf("bob", "c"))
		advance(50*time.Second - time.Millisecond)
		wantReplay(t, s.post(t.Context(), "a", payment))
		wantLimited(t, s.post(t.Context(), "c", payment), "1")
		advance(time.Millisecond)
		wantFirst(t, s.post(t.Context(), "c", payment))
		s.wantEvent(t, event.ScopeLimited, 2)
		for _, e := range s.events.seen() {
			if e.Result == event.ScopeLimited && (e.Status != http.StatusTooManyRequests || e.Code != problem.ScopeLimited || e.Err == nil || e.Ends()) {
				t.Errorf("the event is %+v", e)
			}
		}
	})
}

// A key is in flight for as long as its handler runs, and no longer than the lease of a process
// that died.
func TestScopeLimitFollowsTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, end := newLimitedStore(), make(chan struct{})
		limit, lock := core.ScopeLimit{InFlight: 1}, policy.LockTTL(10*time.Second)
		s := newLimited(t, store, limit, createdOnce(end), lock)
		ended := make(chan *httptest.ResponseRecorder)
		go func() { ended <- s.post(t.Context(), "a", payment) }()
		advance(time.Minute)
		wantLimited(t, s.post(t.Context(), "b", payment), "1")
		close(end)
		wantFirst(t, <-ended)

		dies := store.set(&store.complete, &store.release, &store.keep)
		dies(failUnapplied) // the process settles no key, and gives no place back
		dying := newLimited(t, store, limit, created, lock)
		wantFirst(t, dying.post(t.Context(), "c", payment))
		testkit.Abort(dying)
		synctest.Wait()
		dies(nil)
		other := newLimited(t, store, limit, created, lock)
		wantLimited(t, other.post(t.Context(), "d", payment), "1")
		advance(10 * time.Second)
		wantFirst(t, other.post(t.Context(), "d", payment))
		wantFirst(t, other.post(t.Context(), "c", payment)) // a take-over of the abandoned key
	})
}

// A step renews the lease, so that the scheduled renewal waits: the step keeps the place too.
func TestScopeLimitDuringSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, newLimitedStore(), core.ScopeLimit{InFlight: 1}, func(w http.ResponseWriter, r *http.Request) {
			for i := range 12 {
				_, err := core.Step(r.Context(), fmt.Sprint("step ", i), func(context.Context) (int, error) {
					time.Sleep(5 * time.Second) //nolint:forbidigo // in a bubble
					return i, nil
				})
				testkit.Must(t, err)
			}
			created(w, r)
		}, policy.LockTTL(30*time.Second))
		ended := make(chan *httptest.ResponseRecorder)
		go func() { ended <- s.post(t.Context(), "a", payment) }()
		advance(50 * time.Second)
		wantLimited(t, s.post(t.Context(), "b", payment), "1")
		wantFirst(t, <-ended)
	})
}

// The limit costs a first-time request one call of the store, or two, and a replay none.
func TestScopeLimitCalls(t *testing.T) {
	t.Parallel()
	for limit, want := range map[core.ScopeLimit]int64{{PerMinute: 2}: 3, {InFlight: 1}: 4, {InFlight: 1, PerMinute: 2}: 4} {
		store := newLimitedStore()
		s := newLimited(t, store, limit, created)
		wantFirst(t, s.post(t.Context(), "a", payment))
		calls := func() int64 {
			return store.acquires.Swap(0) + store.completes.Swap(0) + store.releases.Swap(0) + store.limits.Swap(0)
		}
		testkit.Equal(t, calls(), want, "%+v: calls of a first request", limit)
		wantReplay(t, s.post(t.Context(), "a", payment))
		testkit.Equal(t, calls(), 1, "%+v: calls of a replay", limit)
	}
}

// An admission whose reply was lost is repeated, and counts once.
func TestScopeLimitOfALostReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLimitedStore()
		setAdmit := store.set(&store.admit)
		setAdmit(func(apply func() error) error {
			setAdmit(nil)
			return failApplied(apply)
		})
		s := newLimited(t, store, core.ScopeLimit{InFlight: 1, PerMinute: 1}, created)
		wantFirst(t, s.post(t.Context(), "a", payment))
		wantLimited(t, s.post(t.Context(), "b", payment), "60")
	})
}

// Where no admission is answered, or the process shuts down meanwhile, no handler runs, and the
// place that was taken is given back.
func TestScopeLimitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLimitedStore()
		setAdmit, limit := store.set(&store.admit), core.ScopeLimit{InFlight: 1}
		setAdmit(failApplied)
		s := newLimited(t, store, limit, created, policy.LockTTL(time.Hour))
		wantCode(t, s.post(t.Context(), "a", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		s.wantRuns(t, 0)
		setAdmit(nil)
		advance(time.Minute)
		wantFirst(t, s.post(t.Context(), "b", payment))
		setAdmit(func(apply func() error) error {
			go shutdown(t, s)
			synctest.Wait()
			return apply()
		})
		wantCode(t, s.post(t.Context(), "c", payment), http.StatusServiceUnavailable, problem.ShuttingDown)
		setAdmit(nil)
		synctest.Wait()
		wantFirst(t, newLimited(t, store, limit, created).post(t.Context(), "d", payment))
	})
}

// A route that only observes runs the handler, and reports the refusal.
func TestScopeLimitObserved(t *testing.T) {
	t.Parallel()
	s := newLimited(t, newLimitedStore(), core.ScopeLimit{PerMinute: 1}, created, policy.ObserveOnly(true))
	for _, key := range []string{"a", "b"} {
		wantFirst(t, s.post(t.Context(), key, payment))
	}
	s.wantRuns(t, 2)
	refused := slices.IndexFunc(s.events.seen(), func(e event.Event) bool { return e.Result == event.ScopeLimited })
	if refused < 0 || !s.events.seen()[refused].Observed {
		t.Errorf("events are %v, want an observed refusal", s.events.results())
	}
}

// Observed keys fill the limit of no guarded route.
func TestScopeLimitCountsObservedKeysApart(t *testing.T) {
	t.Parallel()
	s := newLimited(t, memstore.New(), core.ScopeLimit{PerMinute: 1, InFlight: 1}, created)
	call := chargeCall("observed", nil)
	call.Route = s.MustRoute(policy.ObserveOnly(true))
	for range 2 {
		if _, _, err := s.charge(t.Context(), call); err != nil {
			t.Error(err)
		}
	}
	call = chargeCall("guarded", nil)
	if _, _, err := s.charge(t.Context(), call); err != nil {
		t.Errorf("the guarded call returned %v", err)
	}
	call.Key = "above"
	if _, _, err := s.charge(t.Context(), call); !errors.Is(err, core.ErrScopeLimited) {
		t.Errorf("the call above the limit returned %v", err)
	}
}

func TestScopeLimitOfDo(t *testing.T) {
	t.Parallel()
	s := newLimited(t, memstore.New(), core.ScopeLimit{PerMinute: 1}, created)
	if _, _, err := s.charge(t.Context(), chargeCall("a", nil)); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.charge(t.Context(), chargeCall("b", nil))
	refused, is := errors.AsType[*core.RefusedError](err)
	if !errors.Is(err, core.ErrScopeLimited) || !is || refused.Problem.RetryAfter <= 0 {
		t.Errorf("Do returned %v, want ErrScopeLimited", err)
	}
	if _, info, err := s.charge(t.Context(), chargeCall("a", nil)); err != nil || !info.Replayed {
		t.Errorf("a repeated call returned %+v, %v", info, err)
	}
}

// The service's name is a part of the scope, as of every key.
func TestScopeLimitOfServices(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	for _, service := range []string{"shop", "bank"} {
		s := newServiceOf(t, store, created, nil, core.WithService(service), core.WithScopeLimit(core.ScopeLimit{PerMinute: 1}))
		wantFirst(t, s.post(t.Context(), "a", payment))
	}
}
