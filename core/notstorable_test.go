package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// narrowStore refuses for good what has more than some bytes.
type narrowStore struct {
	*faultyStore
	body, sketch, steps int
}

func newNarrowStore() *narrowStore { return &narrowStore{newFaultyStore(), 100, 1024, 1 << 20} }

func tooLong(has, most int) error {
	if has <= most {
		return nil
	}
	return fmt.Errorf("narrow: %w: data too long for column body: %d bytes", storage.ErrNotStorable, has)
}

func (s *narrowStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	if err := errors.Join(tooLong(len(r.Body), s.body), tooLong(len(r.Sketch), s.sketch)); err != nil {
		return s.through(ctx, &s.completes, &s.complete, func(storage.Store) error { return err })
	}
	return s.faultyStore.Complete(ctx, l, r)
}

func (s *narrowStore) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if err := tooLong(len(l.Steps), s.steps); err != nil {
		return s.through(ctx, &s.extends, &s.extend, func(storage.Store) error { return err })
	}
	return s.faultyStore.Extend(ctx, l, ttl)
}

// long responds with more bytes than a narrowStore keeps.
func long(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(strings.Repeat("x", 200)))
}

// Case 95: a store refuses a response for good. The client gets the response, the outcome
// is kept without it at once, and retries get not_replayable in every process.
func TestStoreThatRefusesAResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNarrowStore()
		here, there := newService(t, store, long), newService(t, store, long)
		if w := here.post(t.Context(), "k", payment); w.Code != http.StatusCreated || w.Body.Len() != 200 {
			t.Errorf("the first client gets %d with %d bytes, want its response", w.Code, w.Body.Len())
		}
		for range 3 {
			wantCode(t, here.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
			wantCode(t, there.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
			advance(time.Minute)
		}
		here.wantRuns(t, 1)
		there.wantRuns(t, 0)
		wantCalls(t, &store.completes, 2)
		here.wantEvent(t, event.SettleDeferred, 0)
		here.wantEvent(t, event.Completed, 0)
		here.wantEvent(t, event.Unreplayable, 1)
	})
}

// Case 95: one line of the log names the cause, at Warn.
func TestRefusedResponseIsLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	engine := engineOf(t, newNarrowStore(), core.WithObserver(event.Log(slog.New(slog.NewTextHandler(&log, nil)))))
	testkit.Serve(engine.Handler(http.HandlerFunc(long)), newPost(t.Context(), "k", payment))
	const want = "data too long for column body: 200 bytes"
	if lines := strings.Count(log.String(), want); lines != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("want one warning with %q, and the log is\n%s", want, log.String())
	}
}

// Case 95: the same where the store refuses the response only when it is back.
func TestStoreThatRefusesAResponseLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNarrowStore()
		setComplete := store.set(&store.complete)
		here, there := newService(t, store, long), newService(t, store, long)
		setComplete(failUnapplied)
		here.post(t.Context(), "k", payment)
		setComplete(nil)
		advance(time.Second)
		wantCode(t, here.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
		wantCode(t, there.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
		here.wantEvent(t, event.SettleDeferred, 1)
		here.wantEvent(t, event.Unreplayable, 1)
		shutdown(t, here)
	})
}

// Case 95: the sketch of a response that streams is refused. The outcome is kept alone.
func TestStoreThatRefusesASketch(t *testing.T) {
	t.Parallel()
	store := newNarrowStore()
	store.sketch = 0
	s := newService(t, store, createdAsStream)
	s.post(t.Context(), "k", payment)
	wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
	s.wantRuns(t, 1)
	s.wantEvent(t, event.Unreplayable, 1)
}

// Case 95: the store refuses the outcome alone too. The engine stops, an event tells it,
// and the key is abandoned when the lease ends.
func TestStoreThatRefusesTheOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNarrowStore()
		store.set(&store.complete)(failing(tooLong(1, 0)))
		s := newService(t, store, long, policy.OnAbandoned(policy.Refuse), policy.LockTTL(time.Second))
		testkit.Equal(t, s.post(t.Context(), "k", payment).Code, http.StatusCreated, "the status within the lease")
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		advance(time.Minute)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		s.wantRuns(t, 1)
		s.wantEvent(t, event.ResponseLost, 1)
		wantCalls(t, &store.completes, 2)
	})
}

// Case 95: after the lease, that response is not shown.
func TestStoreThatRefusesTheOutcomeTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNarrowStore()
		store.set(&store.extend)(failUnapplied)
		store.set(&store.complete)(func(func() error) error {
			advance(time.Second)
			return tooLong(1, 0)
		})
		s := newService(t, store, created, policy.LockTTL(time.Second))
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.NotConfirmed)
	})
}

// Case 95: a release that the store refuses is not repeated.
func TestStoreThatRefusesARelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNarrowStore()
		store.set(&store.release)(failing(tooLong(1, 0)))
		s := newService(t, store, func(_ http.ResponseWriter, r *http.Request) { failure.MarkRetryable(r.Context()) })
		s.post(t.Context(), "k", payment)
		advance(time.Minute)
		wantCalls(t, &store.releases, 1)
		s.wantEvent(t, event.StoreError, 1)
	})
}

// Case 95: the store refuses the result of a step. The run is uncertain, the key is
// abandoned at once, and the steps before it stay recorded. The lease is renewed as long as
// the handler runs.
func TestStoreThatRefusesAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNarrowStore()
		store.steps = 200
		calls := map[string]int{}
		var cutOff string
		handler := func(w http.ResponseWriter, r *http.Request) {
			for name, size := range map[string]int{"a": 1, "b": 300} {
				if _, err := core.Step(r.Context(), name, func(context.Context) (string, error) {
					calls[name]++
					return strings.Repeat("x", size), nil
				}); err != nil && !errors.Is(err, storage.ErrNotStorable) {
					t.Errorf("step %s returns %v, want the store's refusal", name, err)
				}
			}
			advance(10 * time.Second) // the lease is renewed meanwhile
			if r.Context().Err() != nil {
				t.Error("the run has lost its lease")
			}
			created(w, r)
		}
		asked := policy.OnAbandoned(policy.Recover(func(_ context.Context, a policy.Abandoned) (*policy.Response, error) {
			cutOff = a.Step
			return &policy.Response{Status: http.StatusAccepted}, nil
		}))
		s := newService(t, store, handler, policy.LockTTL(3*time.Second), asked)
		s.post(t.Context(), "k", payment)
		s.wantEvent(t, event.Uncertain, 1)
		if w := s.post(t.Context(), "k", payment); w.Code != http.StatusAccepted || cutOff != "b" {
			t.Errorf("the retry gets %d, and the abandoned step is %q, want 202 from the RecoverFunc and b", w.Code, cutOff)
		}
		if calls["a"] != 1 || calls["b"] != 1 {
			t.Errorf("the steps were called %v times, want once each", calls)
		}
	})
}
