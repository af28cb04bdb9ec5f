package core_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// A key that was released with recorded steps is remembered after its TTL as an abandoned
// one is, because some of its steps have happened. Nothing runs.
func TestRememberedSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &stepping{charge: funcs{returning(1, nil)}, status: []int{429}}
		s := newService(t, memstore.New(), h.ServeHTTP, policy.TTL(time.Minute), policy.Remember(time.Hour))
		s.post(t.Context(), "k", payment)
		advance(5 * time.Minute)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.wantRuns(t, 1)
		advance(time.Hour)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 2)
		h.wantCalls(t, 2)
	})
}
