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
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// remembered is the policy of the tests: an hour with a response, two with a tombstone.
func remembered(opts ...policy.Option) []policy.Option {
	return append([]policy.Option{policy.TTLHours(1), policy.RememberHours(2)}, opts...)
}

func TestLateRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), created, remembered(policy.OnAbandoned(policy.Recover(wantNoRecovery(t))), policy.Wait(time.Second))...)
		wantFirst(t, s.post(t.Context(), "k", payment))
		advance(time.Hour - time.Millisecond)
		wantReplay(t, s.post(t.Context(), "k", payment))
		advance(time.Millisecond)
		before := time.Now()
		late := s.post(t.Context(), "k", payment)
		wantCode(t, late, http.StatusConflict, problem.KeyExpired)
		if late.Header().Get("Retry-After") != "" || !time.Now().Equal(before) {
			t.Errorf("Retry-After is %q after %v, want a final problem at once", late.Header().Get("Retry-After"), time.Since(before))
		}
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		advance(2*time.Hour - time.Millisecond)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.KeyExpired)
		s.wantRuns(t, 1)
		s.wantEvent(t, event.KeyExpired, 2)
		s.wantEvent(t, event.KeyReused, 1)
		s.wantEvent(t, event.LeaseExpired, 0)

		advance(time.Millisecond) // the key is new
		wantFirst(t, s.post(t.Context(), "k", payment))
		s.wantRuns(t, 2)
	})
}

// Every finished run is remembered, and a released key is not.
func TestWhatIsRemembered(t *testing.T) {
	t.Parallel()
	type row struct {
		handle http.HandlerFunc
		code   string // "": the key is new
	}
	testkit.EachInBubble(t, map[string]row{
		"a response":       {created, problem.KeyExpired},
		"a stored error":   {responding(http.StatusConflict), problem.KeyExpired},
		"a stream":         {streaming, problem.KeyExpired},
		"a released key":   {responding(http.StatusBadGateway), ""},
		"an uncertain run": {func(_ http.ResponseWriter, r *http.Request) { failure.MarkUncertain(r.Context()) }, problem.OutcomeUnknown},
	}, func(t *testing.T, c row) {
		s := newService(t, memstore.New(), c.handle, remembered()...)
		s.post(t.Context(), "k", payment)
		advance(time.Hour + 30*time.Second) // a lease is a part of a claim's retention
		late := s.post(t.Context(), "k", payment)
		if c.code == "" {
			s.wantRuns(t, 2)
			return
		}
		wantCode(t, late, http.StatusConflict, c.code)
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.wantRuns(t, 1)
	})
}

// A key that was left abandoned is remembered too, and never runs again, whatever
// OnAbandoned says.
func TestLateRetryOfAnAbandonedKey(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.AbandonedMode{policy.Reexecute, policy.Refuse, policy.Recover(
		func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return &policy.Response{Status: http.StatusOK}, nil
		})} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			crashed := newService(t, deadStore(store), created, remembered()...)
			crashed.post(t.Context(), "k", payment)
			testkit.Abort(crashed)
			advance(time.Hour + 30*time.Second)
			s := newService(t, store, created, remembered(policy.OnAbandoned(mode))...)
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
			wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
			s.wantRuns(t, 0)
			s.wantEvent(t, event.OutcomeUnknown, 1)
		})
	}
}

func TestLateRetryWhereTheRouteObserves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), created, remembered(policy.ObserveOnly(true))...)
		for range 2 {
			wantFirst(t, s.post(t.Context(), "k", payment))
			advance(time.Hour)
		}
		s.wantRuns(t, 2)
		testkit.EqualSlices(t, s.events.results(), []event.Result{event.Execute, event.Completed, event.KeyExpired}, "the events")
	})
}

func TestLateCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), created)
		call := chargeCall("k", "order 1")
		call.Route = s.MustRoute(remembered()...)
		if _, _, err := s.charge(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		advance(time.Hour)
		_, info, err := s.charge(t.Context(), call)
		refused, isRefused := errors.AsType[*core.RefusedError](err)
		if !errors.Is(err, core.ErrKeyExpired) || !isRefused || refused.Problem.Code != problem.KeyExpired || info != (core.Info{}) {
			t.Errorf("the late call returned %+v, %v, want ErrKeyExpired", info, err)
		}
		call.Input = "order 2"
		if _, _, err := s.charge(t.Context(), call); !errors.Is(err, core.ErrKeyReused) {
			t.Errorf("the late call with another input returned %v, want ErrKeyReused", err)
		}
		s.wantRuns(t, 1)
	})
}

// recording is a store that keeps the arguments of its calls.
type recording struct {
	storage.Store
	mu      sync.Mutex
	claimed time.Time       // of the last claim
	wrong   []time.Duration // ages of leases that are not the time since the claim
	claims  []storage.Claim
	leases  []storage.Lease // of Complete
	results []storage.Result
	renewed []storage.Lease
}

func (s *recording) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	s.note(func() { s.claims, s.claimed = append(s.claims, c), time.Now() })
	return s.Store.Acquire(ctx, c)
}

func (s *recording) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	s.note(func() {
		s.leases, s.results = append(s.leases, l), append(s.results, r)
		s.check(l.Age)
	})
	return s.Store.Complete(ctx, l, r)
}

func (s *recording) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	s.note(func() {
		s.renewed = append(s.renewed, l)
		s.check(l.Age)
	})
	return s.Store.Extend(ctx, l, ttl)
}

func (s *recording) note(call func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call()
}

func (s *recording) check(age time.Duration) {
	if age != time.Since(s.claimed) {
		s.wrong = append(s.wrong, age)
	}
}

// The store is told for how long the key is remembered, also of a response that redaction made
// unreplayable. KeepFor moves the beginning of that time, not its length.
func TestStoreRemembersTheKey(t *testing.T) {
	t.Parallel()
	plain := func(w http.ResponseWriter, r *http.Request) { created(w, r) }
	type row struct {
		handle   http.HandlerFunc
		options  []policy.Option
		retain   time.Duration
		remember time.Duration
	}
	testkit.EachInBubble(t, map[string]row{
		"without Remember": {plain, nil, 24 * time.Hour, 0},
		"with Remember":    {plain, []policy.Option{policy.TTLHours(1), policy.RememberHours(2)}, time.Hour, 2 * time.Hour},
		"after KeepFor": {func(w http.ResponseWriter, r *http.Request) {
			core.KeepFor(r.Context(), 3*time.Hour)
			created(w, r)
		}, []policy.Option{policy.RememberHours(2)}, 3 * time.Hour, 2 * time.Hour},
		"a stream": {
			streaming,
			[]policy.Option{policy.RememberHours(2)},
			24 * time.Hour, 2 * time.Hour,
		},
		"a redaction that fails": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"secret":`))
		}, []policy.Option{policy.RedactFields("secret"), policy.RememberHours(2)}, 24 * time.Hour, 2 * time.Hour},
	}, func(t *testing.T, c row) {
		store := &recording{Store: memstore.New()}
		s := newService(t, store, c.handle, c.options...)
		s.post(t.Context(), "k", payment)
		testkit.Equal(t, store.claims[0].Remember, c.remember, "the claim is remembered for")
		if got := store.results[0]; got.Retain != c.retain || got.Remember != c.remember {
			t.Errorf("the result is kept for %v and remembered for %v, want %v and %v", got.Retain, got.Remember, c.retain, c.remember)
		}
	})
}
