package adapters_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// A retry after the TTL is told so, for the time of Remember, and runs nothing.
func TestLateRetry(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.TTLHours(1), policy.RememberHours(2)}})
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
		advance(time.Hour)
		s.refuses(payment("k"), http.StatusConflict, problem.KeyExpired)
		s.refuses(post("/payments", "k", `{"amount":4999}`), http.StatusUnprocessableEntity, problem.KeyReused)
		if retry := s.do(payment("k")).Header().Get("Retry-After"); retry != "" {
			t.Errorf("Retry-After is %q, want none: no retry can succeed", retry)
		}
		s.reported(event.KeyExpired, 2, problem.KeyExpired)
		advance(2 * time.Hour)
		s.runsAgain(payment("k"))
	}))
}

// The first response and its replays tell the same end.
func TestExpiryHeader(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		const name = "Idempotency-Expires"
		s := m.start(t, program{policy: []policy.Option{policy.TTLHours(1)}, options: []core.Option{core.WithExpiryHeader(name)}})
		want := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
		for range 3 {
			if got := s.do(payment("k")).Header().Get(name); got != want {
				t.Errorf("the response ends at %q, want %q", got, want)
			}
			advance(time.Minute)
		}
		if got := s.do(post("/payments", "k", `{"amount":4999}`)).Header()[name]; got != nil {
			t.Errorf("the problem ends at %q", got)
		}
		s.ran(1)
	}))
}

// An outcome that stays unknown until the TTL is over is still unknown then.
func TestLateRetryOfAnUncertainRun(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s := m.start(t, program{
			policy: []policy.Option{policy.TTLHours(1), policy.RememberHours(2)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				failure.MarkUncertain(r.Context(), "the bank timed out")
				w.WriteHeader(http.StatusGatewayTimeout)
			},
		})
		s.do(payment("k"))
		advance(time.Hour + time.Minute)
		s.refuses(payment("k"), http.StatusConflict, problem.OutcomeUnknown)
		s.refuses(post("/payments", "k", `{"amount":4999}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.ran(1)
	}))
}

// A record names the route's pattern as events do, and the process and the key as log
// lines do.
func TestRecordsNameTheirRoute(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		store := memstore.New()
		s := m.start(t, program{store: store, options: []core.Option{core.WithInstance("pod-1")}})
		s.runsAgain(payment("k"))
		keys, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10})
		if err != nil || len(keys.Entries) != 1 {
			t.Fatalf("the store has %v, %v", keys, err)
		}
		record, err := store.Lookup(t.Context(), keys.Entries[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		want := storage.Origin{Route: s.events.of(event.Completed)[0].route, Holder: "pod-1", KeyHash: event.KeyHash("k"), Program: record.Origin.Program}
		if record.Origin != want || want.Route == "" {
			t.Errorf("the record comes from %+v, want %+v", record.Origin, want)
		}
	})
}
