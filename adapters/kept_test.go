package adapters_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
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
		testkit.Equal(t, s.do(payment("k")).Header().Get("Retry-After"), "", "Retry-After")
		s.reported(event.KeyExpired, 2, problem.KeyExpired)
		advance(2 * time.Hour)
		s.runsAgain(payment("k"))
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
		testkit.Must(t, err)
		want := storage.Origin{Route: s.events.of(event.Completed)[0].route, Holder: "pod-1", KeyHash: event.KeyHash("k"), Program: record.Origin.Program}
		if record.Origin != want || want.Route == "" {
			t.Errorf("the record comes from %+v, want %+v", record.Origin, want)
		}
	})
}

// overtakenStore returns leases that another process takes over before their renewal or
// settlement.
func overtakenStore() storage.Store {
	return testkit.Failing(memstore.New(), core.ErrLeaseLost, testkit.Complete, testkit.Release, testkit.Extend)
}

// Case 5: the client does not get a response that the store refused. The other attempt has
// a response of its own, and a client must not get two.
func TestLostResponseIsNotSent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"buffered", created},
		{"flushed", then(created, flush, write("more"), flush)}, //nolint:gocritic // twice on purpose
		{"too large", then(answering(201), write(string(make([]byte, 2<<20))))},
		{"nothing written when the lease is lost", untilCancelled},
	} {
		onCase(t, row.name, everyRouter, inABubble(func(t *testing.T, m mounting) {
			s := m.start(t, program{store: overtakenStore(), handler: row.handler})
			answer := s.do(payment("k"))
			p := problemIn(t, answer)
			if answer.Code != http.StatusConflict || p.Code != problem.InProgress || answer.Header().Get("Retry-After") != "1" {
				t.Errorf("got %d %s %v, want 409 in_progress", answer.Code, answer.Body, answer.Header())
			}
			testkit.Equal(t, answer.Header().Get("Location"), "", "the problem has the header of the 201: %v", answer.Header())
			if lost := s.events.of(event.LeaseLost); len(lost) == 0 {
				t.Errorf("events are %+v, want %q", s.events.all, event.LeaseLost)
			}
		}))
	}
}

// The handler learns of the loss: from its context when a renewal fails, and from its
// writer.
func TestHandlerLearnsThatTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s := m.start(t, program{store: overtakenStore(), handler: func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			testkit.Fails(t, "the context's cause", context.Cause(r.Context()), core.ErrLeaseLost)
			control := http.NewResponseController(w)
			if m.isGin() { // whose writer has no error to return
				w.(http.Flusher).Flush()
			} else if err := control.Flush(); !errors.Is(err, core.ErrLeaseLost) {
				t.Errorf("Flush returned %v, want core.ErrLeaseLost", err)
			}
			if _, err := w.Write([]byte("more")); !errors.Is(err, core.ErrLeaseLost) {
				t.Errorf("Write returned %v, want core.ErrLeaseLost", err)
			}
			if _, _, err := control.Hijack(); err == nil {
				t.Error("Hijack succeeded")
			}
		}})
		s.gets(s.do(payment("k")), http.StatusConflict)
	}))
}

// A handler without its lease cannot take over the connection.
func TestNoHijackWithoutTheLease(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var err error
		s := m.start(t, program{store: overtakenStore(), handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _, err = http.NewResponseController(w).Hijack()
		}})
		serveService(s).conflicts(problem.InProgress)
		testkit.Fails(t, "Hijack", err, core.ErrLeaseLost)
	})
}

// The client gets a response of a class that is not stored, even after the lease is lost.
func TestFailureWithoutTheLeaseIsShown(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{store: overtakenStore(), handler: answering(http.StatusBadGateway)})
		s.gets(s.do(payment("k")), http.StatusBadGateway)
	})
}

// narrowStore refuses each response for good, and takes the outcome without it.
type narrowStore struct{ storage.Store }

func (s narrowStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	if r.State != storage.Unreplayable {
		return storage.ErrNotStorable
	}
	return s.Store.Complete(ctx, l, r)
}

// Case 95: the client gets the response that the store refuses, and a retry gets
// not_replayable.
func TestResponseThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{store: narrowStore{memstore.New()}})
		s.gets(s.do(post("/payments", "k", amount)), http.StatusCreated, `{"id":17}`)
		s.refuses(post("/payments", "k", amount), http.StatusConflict, problem.NotReplayable)
		s.ran(1)
	})
}
