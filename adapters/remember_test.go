package adapters_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// A retry after the TTL is told so, for the time of Remember, and runs nothing.
func TestLateRetry(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		synctest.Test(t, func(t *testing.T) {
			s := m.start(t, program{route: route{policy: []policy.Option{policy.TTLHours(1), policy.RememberHours(2)}}})
			s.runsAgain(payment("k"))
			s.replays(payment("k"))
			advance(time.Hour)
			s.refuses(payment("k"), http.StatusConflict, problem.KeyExpired)
			s.refuses(post("/payments", "k", `{"amount":4999}`), http.StatusUnprocessableEntity, problem.KeyReused)
			if retry := s.do(payment("k")).Header().Get("Retry-After"); retry != "" {
				t.Errorf("Retry-After is %q, want none: no retry can succeed", retry)
			}
			if all := s.events.of(event.KeyExpired); len(all) != 2 || all[0].code != problem.KeyExpired {
				t.Errorf("events are %+v, want two with the code", all)
			}
			advance(2 * time.Hour)
			s.runsAgain(payment("k"))
		})
	})
}

// An outcome that stays unknown until the TTL is over is still unknown then.
func TestLateRetryOfAnUncertainRun(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		synctest.Test(t, func(t *testing.T) {
			s := m.start(t, program{route: route{
				policy: []policy.Option{policy.TTLHours(1), policy.RememberHours(2)},
				handler: func(w http.ResponseWriter, r *http.Request) {
					failure.MarkUncertain(r.Context(), "the bank timed out")
					w.WriteHeader(http.StatusGatewayTimeout)
				},
			}})
			s.do(payment("k"))
			advance(time.Hour + time.Minute)
			s.refuses(payment("k"), http.StatusConflict, problem.OutcomeUnknown)
			s.refuses(post("/payments", "k", `{"amount":4999}`), http.StatusUnprocessableEntity, problem.KeyReused)
			s.ran(1)
		})
	})
}
