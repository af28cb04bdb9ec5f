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
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The response of a RecoverFunc is final, even against the policy's lists.
func TestListsDoNotDecideAboutRecoverFuncs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, abandonedStore(t), created, recovering(&policy.Response{Status: http.StatusPaymentRequired}, nil), policy.Release("4xx"))
		for range 2 {
			testkit.Equal(t, s.post(t.Context(), "k", payment).Code, http.StatusPaymentRequired, "the status")
		}
		s.wantRuns(t, 0)
	})
}

// A duplicate takes the key over before its process knows that the key is abandoned.
// The duplicate gives its claim back, and the key is not blocked for LockTTL.
func TestDuplicateClaimsWhileKeyIsLeftAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, uncertain, policy.LockTTL(time.Minute))
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
