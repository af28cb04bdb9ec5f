package rpctest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// wantProblem checks an error of the engine.
func wantProblem(t *testing.T, r Response, c code.Code, reason string, again bool) {
	t.Helper()
	if r.Status.GetCode() != int32(c) || r.Reason() != reason || r.RetryAfter() > 0 != again || again && r.Replayed() || r.Status.GetMessage() == "" {
		t.Errorf("got %v, want %v with the reason %s, a RetryInfo: %t", r.Status, c, reason, again)
	}
	if r.Metadata.Get("X-Header") != "" || r.Metadata.Get("Cache-Control") != "" || r.Metadata.Get("Retry-After") != "" {
		t.Errorf("%s has the metadata %v", reason, r.Metadata)
	}
}

// refusals checks the errors of calls whose handler does not run.
func (a *Adapter) refusals(t *testing.T) {
	s := a.newService(t, memstore.New(), func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		a.SetMetadata(ctx, http.Header{"X-Header": {"1"}}, nil)
		return paid(ctx, request)
	}, policy.ExcludeFields("client_time"), policy.MaxRequestBytes(500), policy.MaxResponseBytes(200))
	wantPaid(t, s.pay(t, "used"), false)
	s.wantRuns(t, 1)
	long := strings.Repeat("k", 256)
	payment := &shop.PayRequest{Amount: 100, Currency: "EUR"}
	for name, row := range map[string]struct {
		header  http.Header
		request *shop.PayRequest
		code    code.Code
		reason  string
	}{
		"no key":          {http.Header{"Authorization": {"alice"}}, payment, code.Code_INVALID_ARGUMENT, problem.KeyMissing},
		"an invalid key":  {Key("a b"), payment, code.Code_INVALID_ARGUMENT, problem.KeyInvalid},
		"a long key":      {Key(long), payment, code.Code_INVALID_ARGUMENT, problem.KeyInvalid},
		"two keys":        {http.Header{core.KeyHeader: {"a", "b"}, "Authorization": {"alice"}}, payment, code.Code_INVALID_ARGUMENT, problem.KeyInvalid},
		"no principal":    {http.Header{core.KeyHeader: {"k"}}, payment, code.Code_UNAUTHENTICATED, problem.PrincipalMissing},
		"another payload": {Key("used"), &shop.PayRequest{Amount: 200, Currency: "EUR"}, code.Code_FAILED_PRECONDITION, problem.KeyReused},
		"a large request": {Key("large"), &shop.PayRequest{Currency: strings.Repeat("x", 500)}, code.Code_RESOURCE_EXHAUSTED, problem.BodyTooLarge},
	} {
		r := s.call(t.Context(), Pay, row.header, row.request)
		if wantProblem(t, r, row.code, row.reason, false); t.Failed() {
			t.Fatal("the case is ", name)
		}
	}
	s.wantRuns(t, 1)
}

// later checks the errors of calls after a run whose response is not kept, or not any
// more, or not known.
func (a *Adapter) later(t *testing.T) {
	for name, row := range map[string]struct {
		handle Handler
		opts   []policy.Option
		code   code.Code
		reason string
	}{
		"too large": {func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
			return &shop.Payment{Id: strings.Repeat("x", 500)}, nil
		}, []policy.Option{policy.MaxResponseBytes(200)}, code.Code_FAILED_PRECONDITION, problem.NotReplayable},
		"not encodable": {func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
			return &shop.Payment{Id: "\xff"}, nil
		}, nil, code.Code_FAILED_PRECONDITION, problem.NotReplayable},
		"expired": {func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
			core.KeepFor(ctx, time.Millisecond)
			return paid(ctx, request)
		}, []policy.Option{policy.Remember(time.Hour)}, code.Code_FAILED_PRECONDITION, problem.KeyExpired},
		"panicked after the side effect": {func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
			failure.MarkExecuted(ctx)
			panic("in the handler")
		}, nil, code.Code_INTERNAL, problem.HandlerFailed},
		"uncertain": {func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
			failure.MarkUncertain(ctx)
			return paid(ctx, request)
		}, []policy.Option{policy.OnAbandoned(policy.Refuse)}, code.Code_FAILED_PRECONDITION, problem.OutcomeUnknown},
		"asked in vain": {func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
			failure.MarkUncertain(ctx)
			return paid(ctx, request)
		}, []policy.Option{policy.OnAbandoned(policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return nil, errors.New("provider down")
		}))}, code.Code_ABORTED, problem.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := a.newService(t, memstore.New(), row.handle, row.opts...)
			first := s.pay(t, "k")
			if first.Reason() != "" {
				t.Errorf("the first response is %v", first.Status)
			}
			var second Response
			testkit.Await(t, "for the end of the response", func() bool { second = s.pay(t, "k"); return second.Reason() != "" })
			wantProblem(t, second, row.code, row.reason, row.code == code.Code_ABORTED)
			s.wantRuns(t, 1)
		})
	}
}

// keyAge checks keys that tell their age: by themselves, or by metadata.
func (a *Adapter) keyAge(t *testing.T) {
	s := a.newService(t, memstore.New(), paid, policy.KeyAge(time.Hour))
	const old = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	wantProblem(t, s.pay(t, old), code.Code_FAILED_PRECONDITION, problem.KeyExpired, false)
	wantProblem(t, s.pay(t, "order-17"), code.Code_INVALID_ARGUMENT, problem.KeyInvalid, false)
	sent := func(age time.Duration) Response {
		header := Key("order-17")
		header.Set("Repeatability-First-Sent", time.Now().Add(-age).UTC().Format(http.TimeFormat))
		return s.call(t.Context(), Pay, header, &shop.PayRequest{Amount: 100, Currency: "EUR"})
	}
	wantProblem(t, sent(2*time.Hour), code.Code_FAILED_PRECONDITION, problem.KeyExpired, false)
	s.wantRuns(t, 0)
	wantPaid(t, sent(0), false)
	wantPaid(t, sent(0), true)
}

// limited checks the error of a new key over the limit of its scope.
func (a *Adapter) limited(t *testing.T) {
	engine := NewEngine(t, nil, scopeByUser, core.WithScopeLimit(core.ScopeLimit{PerMinute: 1}))
	s := a.newServiceOf(t, engine, paid, policy.Row("POST "+Pay))
	wantPaid(t, s.pay(t, "k1"), false)
	wantProblem(t, s.pay(t, "k2"), code.Code_RESOURCE_EXHAUSTED, problem.ScopeLimited, true)
	wantPaid(t, s.pay(t, "k1"), true)
	s.wantRuns(t, 1)
}

// storeDown checks the errors of a store that fails.
func (a *Adapter) storeDown(t *testing.T) {
	store := &testkit.Faulty{Store: memstore.New()}
	s := a.newService(t, store, paid)
	store.Fail(errDown, testkit.Acquire)
	wantProblem(t, s.pay(t, "k"), code.Code_UNAVAILABLE, problem.StoreUnavailable, true)
	s.wantRuns(t, 0)
	store.Fail(nil, testkit.Acquire)

	store.Fail(errDown, testkit.Complete) // the response is shown within the lease, and stored later
	wantPaid(t, s.pay(t, "k"), false)
	wantPaid(t, s.pay(t, "k"), true)
	store.Fail(nil, testkit.Complete)
	s.wantRuns(t, 1)

	failOpen := a.newService(t, store, paid, policy.OnStoreError(policy.FailOpen))
	store.Fail(errDown, testkit.Acquire)
	wantPaid(t, failOpen.pay(t, "open"), false)
	failOpen.wantRuns(t, 1)
}

// cutShort checks the errors of handlers that lose their lease or take too long.
func (a *Adapter) cutShort(t *testing.T) {
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		store := memstore.New()
		s := a.newService(t, store, func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
			a.SetMetadata(ctx, http.Header{"X-Header": {"1"}}, nil)
			lease, _ := core.LeaseFrom(ctx)
			if err := store.Release(ctx, lease); err != nil {
				return nil, err
			}
			lease.Token = storage.NewToken() // another process claims the key
			if _, _, err := store.Acquire(ctx, lease.Claim); err != nil {
				return nil, err
			}
			return paid(ctx, request)
		})
		wantProblem(t, s.pay(t, "k"), code.Code_ABORTED, problem.InProgress, true)
	})
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		s := a.newService(t, memstore.New(), func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
			<-ctx.Done()
			if request.GetGift() { // it has its effect all the same
				return paid(ctx, request)
			}
			return nil, ctx.Err()
		}, policy.MaxRun(20*time.Millisecond))
		wantProblem(t, s.pay(t, "k"), code.Code_UNAVAILABLE, problem.HandlerCancelled, true)
		wantProblem(t, s.pay(t, "k"), code.Code_UNAVAILABLE, problem.HandlerCancelled, true)
		s.wantRuns(t, 2)
		for _, replayed := range []bool{false, true} {
			wantPaid(t, s.call(t.Context(), Pay, Key("gift"), &shop.PayRequest{Amount: 100, Gift: true}), replayed)
		}
	})
}
