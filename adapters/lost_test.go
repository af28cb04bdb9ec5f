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
)

// overtakenStore returns leases that another process takes over before their renewal or
// settlement.
type overtakenStore struct{ storage.Store }

func (overtakenStore) Complete(context.Context, storage.Lease, storage.Result) error {
	return core.ErrLeaseLost
}

func (overtakenStore) Release(context.Context, storage.Lease) error { return core.ErrLeaseLost }

func (overtakenStore) Extend(context.Context, storage.Lease, time.Duration) error {
	return core.ErrLeaseLost
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
			s := m.start(t, program{store: overtakenStore{memstore.New()}, handler: row.handler})
			answer := s.do(payment("k"))
			p := problemIn(t, answer)
			if answer.Code != http.StatusConflict || p.Code != problem.InProgress || answer.Header().Get("Retry-After") != "1" {
				t.Errorf("got %d %s %v, want 409 in_progress", answer.Code, answer.Body, answer.Header())
			}
			if answer.Header().Get("Location") != "" {
				t.Errorf("the problem has the header of the 201: %v", answer.Header())
			}
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
		s := m.start(t, program{store: overtakenStore{memstore.New()}, handler: func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); !errors.Is(cause, core.ErrLeaseLost) {
				t.Errorf("the context's cause is %v, want core.ErrLeaseLost", cause)
			}
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
		s := m.start(t, program{store: overtakenStore{memstore.New()}, handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _, err = http.NewResponseController(w).Hijack()
		}})
		serveService(s).conflicts(problem.InProgress)
		if !errors.Is(err, core.ErrLeaseLost) {
			t.Errorf("Hijack returned %v, want core.ErrLeaseLost", err)
		}
	})
}

// The client gets a response of a class that is not stored, even after the lease is lost.
func TestFailureWithoutTheLeaseIsShown(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{store: overtakenStore{memstore.New()}, handler: answering(http.StatusBadGateway)})
		s.gets(s.do(payment("k")), http.StatusBadGateway)
	})
}
