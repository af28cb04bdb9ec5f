package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 9: responses in flight are stored before the process ends.
func TestShutdownWaitsForRunsAndForUnsettledResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setComplete := store.set(&store.complete)
		s := newService(t, store, createdAfter(5*time.Second))
		setComplete(failUnapplied)
		time.AfterFunc(10*time.Second, func() { setComplete(nil) })
		go s.post(t.Context(), "k", payment)
		synctest.Wait()

		start := time.Now()
		shutdown(t, s)
		if waited := time.Since(start); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("waited %v, want until the response was stored", waited)
		}
		other := newService(t, store, created)
		wantReplay(t, other.post(t.Context(), "k", payment))
	})
}

func TestShutdownGivesUpAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.complete, &store.extend)(failUnapplied)
		s := newService(t, store, created)
		s.post(t.Context(), "k1", payment)
		s.post(t.Context(), "k2", payment)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Shutdown(ctx)
		if !errors.Is(err, core.ErrShutdown) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 left") {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		s.wantEvent(t, event.ResponseLost, 2)
	})
}

// Shutdown does not wait for releases of unused claims at an unreachable store, because
// no response can be lost.
func TestShutdownDoesNotWaitForReleasesOfUnusedClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.acquire, &store.release)(failUnapplied)
		s := newService(t, store, created)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		start := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("Shutdown returned %v after %v", err, time.Since(start))
		}
	})
}

// A request that got its lease while Shutdown began does not run, and its claim is
// released before Shutdown returns: the process may end right after.
func TestShutdownWhileAClaimIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, created)
		store.set(&store.acquire)(func(apply func() error) error {
			err := apply()
			advance(100 * time.Millisecond)
			return err
		})
		refused := make(chan *httptest.ResponseRecorder, 1)
		go func() { refused <- s.post(t.Context(), "k", payment) }()
		synctest.Wait()
		shutdown(t, s)
		store.set(&store.acquire)(nil)
		wantFirst(t, newService(t, store, created, policy.OnAbandoned(policy.Refuse)).post(t.Context(), "k", payment))
		wantCode(t, <-refused, http.StatusServiceUnavailable, problem.ShuttingDown)
		s.wantRuns(t, 0)
	})
}

// Shutdown succeeds without work, even if its context has ended before: the shutdown of
// the server may have taken all its time.
func TestShutdownWithoutWork(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 { // a select takes either of two ready channels
		s := newService(t, newFaultyStore(), created)
		wantFirst(t, s.post(t.Context(), "k", payment))
		testkit.Must(t, s.Shutdown(ended))
	}
}
