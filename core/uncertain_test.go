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
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A run that took over an abandoned key never releases the key, because the outcome of
// the earlier attempt is still unknown. So another payload still gets 422.
func TestTakenOverKeyIsNeverReleased(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]http.HandlerFunc{
		"retryable": func(w http.ResponseWriter, r *http.Request) {
			failure.MarkRetryable(r.Context())
			w.WriteHeader(http.StatusConflict)
		},
		"broken": responding(http.StatusBadGateway),
	}, func(t *testing.T, handler http.HandlerFunc) {
		store := abandonedStore(t)
		s := newService(t, store, handler)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 1)
		s.wantEvent(t, event.Uncertain, 1)
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.post(t.Context(), "k", payment) // OnAbandoned is Reexecute
		s.wantRuns(t, 2)
	})
}

// After a RecoverFunc that found no effect of earlier attempts, the key is released as
// after a first attempt.
func TestClearedKeyIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := abandonedStore(t)
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			failure.MarkRetryable(r.Context())
			w.WriteHeader(http.StatusConflict)
		}, recovering(nil, nil))
		s.post(t.Context(), "k", payment)
		s.wantEvent(t, event.Retryable, 1)
		s.post(t.Context(), "k", `{"amount":7}`)
		s.wantRuns(t, 2)
	})
}

// Marks made inside a RecoverFunc are not the handler's.
func TestMarksOfRecoverFuncDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, abandonedStore(t), responding(http.StatusServiceUnavailable), lookingInto(func(ctx context.Context, _ policy.Abandoned) {
			if !failure.MarkUncertain(ctx) || !failure.MarkExecuted(ctx) {
				t.Error("a mark in the RecoverFunc returned false")
			}
		}), policy.Release("503"))
		s.post(t.Context(), "k", payment)
		s.wantEvent(t, event.DeleteKey, 1)
	})
}

// The response of a RecoverFunc is final, even against the policy's lists.
func TestListsDoNotDecideAboutRecoverFuncs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, abandonedStore(t), created, recovering(&policy.Response{Status: http.StatusPaymentRequired}, nil), policy.Release("4xx"))
		for range 2 {
			if w := s.post(t.Context(), "k", payment); w.Code != http.StatusPaymentRequired {
				t.Errorf("got %d", w.Code)
			}
		}
		s.wantRuns(t, 0)
	})
}

// If the store fails while the key is left abandoned, the call is repeated in the
// background.
func TestAbandonIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			store.set(&store.extend)(failUnapplied)
			failure.MarkUncertain(r.Context())
			w.WriteHeader(http.StatusGatewayTimeout)
		}, policy.OnAbandoned(policy.Refuse))
		if w := s.post(t.Context(), "k", payment); w.Code != http.StatusGatewayTimeout {
			t.Errorf("the client got %d", w.Code)
		}
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		store.set(&store.extend)(nil)
		advance(time.Second) // far less than the lease
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		s.wantEvent(t, event.Uncertain, 1)
	})
}

// A handler that is cut off may have its response kept by a list. The client and each
// retry then get a final response, and not one that tells them to try again.
func TestKeptResponseOfACancelledHandlerIsFinal(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]bool{"MaxRun": false, "the lease is lost": true}, func(t *testing.T, fails bool) {
		store := newFaultyStore()
		if fails {
			store.set(&store.extend)(failUnapplied)
		}
		var cause error
		s := newService(t, store, untilCancelled(&cause), policy.LockTTL(3*time.Second), policy.MaxRun(5*time.Second), policy.Keep("503"))
		for range 2 {
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusInternalServerError, problem.HandlerFailed)
		}
		s.wantRuns(t, 1)
	})
}

// A duplicate takes the key over before its process knows that the key is abandoned.
// The duplicate gives its claim back, and the key is not blocked for LockTTL.
func TestDuplicateClaimsWhileKeyIsLeftAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			failure.MarkUncertain(r.Context())
			w.WriteHeader(http.StatusGatewayTimeout)
		}, policy.LockTTL(time.Minute))
		var group sync.WaitGroup
		store.set(&store.acquire)(func(apply func() error) error { advance(100 * time.Millisecond); return apply() })
		group.Go(func() { wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress) })
		synctest.Wait()
		store.set(&store.acquire)(nil)
		store.set(&store.extend)(func(apply func() error) error { defer advance(200 * time.Millisecond); return apply() })
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 1)
		group.Wait()
		advance(time.Second)
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 2)
	})
}

// core.Do: an uncertain error leaves the key abandoned, and an ordinary error releases
// the key, under every OnAbandoned.
func TestUncertainCalls(t *testing.T) {
	t.Parallel()
	type row struct {
		err  error
		want error // of the second call; nil is the stored error
	}
	testkit.EachInBubble(t, map[string]row{
		"uncertain": {failure.Uncertain(errBroken), core.ErrOutcomeUnknown},
		"ordinary":  {errBroken, errBroken},
		"permanent": {failure.Permanent(errBroken), nil},
	}, func(t *testing.T, row row) {
		engine := engineOf(t, memstore.New())
		call := core.Call{Scope: "orders", Name: "charge", Key: "k", Route: engine.MustRoute(policy.OnAbandoned(policy.Refuse))}
		charge := func(context.Context) (int, error) { return 0, row.err }
		if _, _, err := core.Do(t.Context(), engine, call, charge); !errors.Is(err, errBroken) {
			t.Errorf("the first call returned %v", err)
		}
		_, info, err := core.Do(t.Context(), engine, call, charge)
		if row.want != nil && !errors.Is(err, row.want) || row.want == nil && (!info.Replayed || !failure.IsPermanent(err)) {
			t.Errorf("the second call returned %v, want %v or the stored error", err, row.want)
		}
	})
}
