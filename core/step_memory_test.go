package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// A key that was released with recorded steps is not remembered after its Retain: a run
// that was released has no outcome.
func TestReleasedStepsAreNotRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &stepping{charge: funcs{returning(1, nil)}, status: []int{429}}
		s := newService(t, memstore.New(), h.ServeHTTP, policy.TTL(time.Minute), policy.Remember(time.Hour))
		s.post(t.Context(), "k", payment)
		advance(5 * time.Minute)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 2)
		h.wantCalls(t, 2)
	})
}
