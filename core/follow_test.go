package core_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// flushed is a handler that flushes and then runs until its context ends, but for at most
// a minute.
func flushed(cause *error, after *time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
		*cause, *after = context.Cause(r.Context()), time.Since(start)
	}
}

// Case 86: while the store has not confirmed that a response streams, the client's
// disconnect does not end the handler: another process may still have to continue its work.
func TestStreamFollowsItsClientOnceTheStoreHasConfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setComplete := store.set(&store.complete)
		var cause error
		var after time.Duration
		s := newService(t, store, flushed(&cause, &after), policy.MaxRun(10*time.Minute))
		setComplete(failUnapplied)
		time.AfterFunc(20*time.Second, func() { setComplete(nil) })
		errHungUp := errors.New("the client hung up")
		ctx, hangUp := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { hangUp(errHungUp) })
		s.post(ctx, "k", payment)
		if !errors.Is(cause, errHungUp) || after < 20*time.Second || after > 21*time.Second {
			t.Errorf("the handler ended after %v with %v, want when the store confirmed the record, with %v", after, cause, errHungUp)
		}
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
		s.wantRuns(t, 1)
	})
}

// Case 86: a deadline that middleware set ends a stream as before.
func TestStreamKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		var after time.Duration
		s := newService(t, newFaultyStore(), flushed(&cause, &after))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s.post(ctx, "k", payment)
		if !errors.Is(cause, context.DeadlineExceeded) || after != 5*time.Second {
			t.Errorf("the handler ended after %v with %v, want the deadline after 5s", after, cause)
		}
	})
}

// Case 86: a stream that may not be shown ends at once, and not at MaxRun.
func TestStreamThatMayNotBeShown(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{storage.ErrLeaseLost, errStoreDown} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			store.set(&store.complete)(func(func() error) error {
				if errors.Is(refusal, errStoreDown) {
					advance(450 * time.Millisecond) // the lease ends meanwhile
				}
				return refusal
			})
			store.set(&store.extend)(failUnapplied)
			var cause error
			var after time.Duration
			s := newService(t, store, flushed(&cause, &after), policy.LockTTL(400*time.Millisecond))
			w := s.post(t.Context(), "k", payment)
			want, code := core.ErrLeaseLost, http.StatusConflict
			if errors.Is(refusal, errStoreDown) {
				want, code = core.ErrNotConfirmed, http.StatusServiceUnavailable
			}
			if w.Code != code || !errors.Is(cause, want) || after > time.Second {
				t.Errorf("got %d, and the handler ended after %v with %v, want %d and at once with %v", w.Code, after, cause, code, want)
			}
			testkit.Abort(s)
		})
	}
}
