package core_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// entombed is a store that shows every record as its tombstone.
type entombed struct{ storage.Store }

func (s entombed) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	lease, record, err := s.Store.Acquire(ctx, c)
	if record != nil {
		record = &storage.Record{
			State: storage.Expired, Fingerprint: record.Fingerprint, Digest: record.Digest, Attempt: record.Attempt, Status: record.Status,
		}
	}
	return lease, record, err
}

func TestLateRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, entombed{memstore.New()}, created, policy.OnAbandoned(policy.Recover(
			func(context.Context, policy.Abandoned) (*policy.Answer, error) {
				t.Error("the RecoverFunc was called for a run that had finished")
				return nil, nil
			})), policy.Wait(time.Second))
		wantFirst(t, s.post(t.Context(), "k", payment))
		before := time.Now()
		late := s.post(t.Context(), "k", payment)
		wantCode(t, late, http.StatusConflict, problem.KeyExpired)
		if late.Header().Get("Retry-After") != "" || !time.Now().Equal(before) {
			t.Errorf("Retry-After is %q after %v, want a final problem at once", late.Header().Get("Retry-After"), time.Since(before))
		}
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.wantRuns(t, 1)
		s.wantEvent(t, event.KeyExpired, 1)
		s.wantEvent(t, event.KeyReused, 1)
		s.wantEvent(t, event.LeaseExpired, 0)
	})
}

// A key that was left abandoned is remembered too, and never runs again.
func TestLateRetryOfAnAbandonedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		crash(t, store)
		advance(time.Second)
		s := newService(t, entombed{claimless{store}}, created)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.wantRuns(t, 0)
		s.wantEvent(t, event.OutcomeUnknown, 1)
	})
}

// claimless is a store in which no abandoned key is taken over.
type claimless struct{ storage.Store }

func (s claimless) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	c.TakeOver = false
	return s.Store.Acquire(ctx, c)
}

func TestLateRetryWhereTheRouteObserves(t *testing.T) {
	t.Parallel()
	s := newService(t, entombed{memstore.New()}, created, policy.Observe(true))
	for range 2 {
		wantFirst(t, s.post(t.Context(), "k", payment))
	}
	s.wantRuns(t, 2)
	if got, want := s.events.results(), []event.Result{event.Execute, event.Completed, event.KeyExpired}; !slices.Equal(got, want) {
		t.Errorf("the events are %v, want %v", got, want)
	}
}

func TestLateCall(t *testing.T) {
	t.Parallel()
	s := newTill(t, entombed{memstore.New()})
	call := chargeCall("k", nil)
	if _, _, err := s.charge(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	_, info, err := s.charge(t.Context(), call)
	refused, isRefused := errors.AsType[*core.RefusedError](err)
	if !errors.Is(err, core.ErrKeyExpired) || !isRefused || refused.Problem.Code != problem.KeyExpired || info != (core.Info{}) {
		t.Errorf("the late call returned %+v, %v, want ErrKeyExpired", info, err)
	}
	s.wantRuns(t, 1)
}

// recording is a store that keeps the arguments of its calls.
type recording struct {
	storage.Store
	mu      sync.Mutex
	claims  []storage.Claim
	leases  []storage.Lease // of Complete
	results []storage.Result
	renewed []storage.Lease
}

func (s *recording) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, c)
	return s.Store.Acquire(ctx, c)
}

func (s *recording) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases, s.results = append(s.leases, l), append(s.results, r)
	return s.Store.Complete(ctx, l, r)
}

func (s *recording) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = append(s.renewed, l)
	return s.Store.Extend(ctx, l, ttl)
}

// The store is told for how long the key is remembered, also after KeepFor, and also of
// a response that redaction made unreplayable.
func TestStoreRemembersTheKey(t *testing.T) {
	t.Parallel()
	plain := func(w http.ResponseWriter, r *http.Request) { created(w, r) }
	for name, c := range map[string]struct {
		handle   http.HandlerFunc
		options  []policy.Option
		retain   time.Duration
		remember time.Duration
	}{
		"without Remember": {plain, nil, 24 * time.Hour, 0},
		"with Remember":    {plain, []policy.Option{policy.TTLHours(1), policy.RememberHours(2)}, time.Hour, 2 * time.Hour},
		"after KeepFor": {func(w http.ResponseWriter, r *http.Request) {
			core.KeepFor(r.Context(), 3*time.Hour)
			created(w, r)
		}, []policy.Option{policy.RememberHours(2)}, 3 * time.Hour, 2 * time.Hour},
		"a stream": {func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
			[]policy.Option{policy.RememberHours(2)}, 24 * time.Hour, 2 * time.Hour},
		"a redaction that fails": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"secret":`))
		}, []policy.Option{policy.RedactFields("secret"), policy.RememberHours(2)}, 24 * time.Hour, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &recording{Store: memstore.New()}
			s := newService(t, store, c.handle, c.options...)
			s.post(t.Context(), "k", payment)
			if got := store.claims[0].Remember; got != c.remember {
				t.Errorf("the claim is remembered for %v, want %v", got, c.remember)
			}
			if got := store.results[0]; got.Retain != c.retain || got.Remember != c.remember {
				t.Errorf("the result is kept for %v and remembered for %v, want %v and %v", got.Retain, got.Remember, c.retain, c.remember)
			}
		})
	}
}
