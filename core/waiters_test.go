package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 88: a waiter that runs in the end has a sketch, and one that differs is told the
// members.
func TestWaiterReadsItsBodyAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		handle := failsFirst(time.Second)
		first, second := newService(t, store, handle), newService(t, store, handle, policy.Wait(time.Minute))
		var all sync.WaitGroup
		all.Go(func() { first.post(t.Context(), "k", payment) })
		synctest.Wait()
		wantFirst(t, second.post(t.Context(), "k", payment)) // waited for the other process
		all.Wait()
		wantCode(t, first.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		testkit.EqualSlices(t, first.events.last().Differs, []string{"amount"}, "the members that differ")
	})
}

// crowd is a service with many requests. Its handlers run until the test ends them.
type crowd struct {
	*service
	end     chan struct{}
	all     sync.WaitGroup
	refused atomic.Int64
}

func newCrowd(t *testing.T, store storage.Store, opts ...policy.Option) *crowd {
	t.Helper()
	c := &crowd{end: make(chan struct{})}
	c.service = newService(t, store, func(w http.ResponseWriter, r *http.Request) {
		<-c.end
		created(w, r)
	}, opts...)
	return c
}

// send sends requests of a key, and counts those that are refused.
func (c *crowd) send(ctx context.Context, t *testing.T, key string, n int) {
	t.Helper()
	for range n {
		c.all.Go(func() {
			start := time.Now()
			if w := c.post(ctx, key, payment); w.Code != http.StatusCreated && ctx.Err() == nil {
				wantCode(t, w, http.StatusConflict, problem.InProgress)
				if w.Header().Get("Retry-After") != "1" || !time.Now().Equal(start) {
					t.Errorf("refused after %v with %v, want at once with Retry-After", time.Since(start), w.Header())
				}
				c.refused.Add(1)
			}
		})
	}
	synctest.Wait()
}

func (c *crowd) wantRefused(t *testing.T, n int64) {
	t.Helper()
	testkit.Equal(t, c.refused.Swap(0), n, "requests that are refused")
}

const (
	mostOfKey = 128
	mostOfAll = 1024
)

// Case 88: a limited number of requests waits for one key. Further ones get 409 at once.
func TestWaitersOfAKeyAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, memstore.New(), policy.Wait(time.Hour))
		for round := range 3 { // the places of waiters are free again
			key := fmt.Sprint("k", round)
			c.send(t.Context(), t, key, 1)
			c.send(t.Context(), t, key, mostOfKey)
			c.wantRefused(t, 0)
			if running := c.Running(); len(running) != 1 || running[0].Waiting != mostOfKey {
				t.Errorf("%+v, want a run with %d waiters", running, mostOfKey)
			}
			c.send(t.Context(), t, key, 3)
			c.wantRefused(t, 3)
			close(c.end)
			c.all.Wait()
			c.end = make(chan struct{})
		}
		c.wantEvent(t, event.InProgress, 9)
		c.wantRuns(t, 3)
	})
}

// Case 88: and in one process.
func TestWaitersOfAProcessAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, memstore.New(), policy.Wait(time.Hour))
		const keys = 16
		for round := range 2 {
			key := func(i int) string { return fmt.Sprint(round, "-", i) }
			for i := range keys + 1 {
				c.send(t.Context(), t, key(i), 1)
			}
			for i := range keys {
				c.send(t.Context(), t, key(i), mostOfAll/keys)
			}
			c.wantRefused(t, 0)
			c.send(t.Context(), t, key(keys), 2)
			c.send(t.Context(), t, key(0), 1)
			c.wantRefused(t, 3)
			close(c.end)
			c.all.Wait()
			c.end = make(chan struct{})
		}
	})
}

// Case 88: a waiter keeps its place while it asks the store about another process.
func TestWaitersForAnotherProcessAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := newCrowd(t, store, policy.Wait(time.Hour))
		c.send(t.Context(), t, "k", 1)
		other := newCrowd(t, store, policy.Wait(time.Hour))
		for range mostOfKey {
			other.all.Go(func() { wantReplay(t, other.post(t.Context(), "k", payment)) })
		}
		synctest.Wait()
		for range 10 { // rounds of the waiters
			advance(100 * time.Millisecond)
			wantCode(t, other.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		}
		const limit = "oncekey: too many requests wait: at most 128 for one key and 1024 in one process"
		if last := other.events.seen()[9]; last.Result != event.InProgress || last.ErrorText() != limit {
			t.Errorf("the event is %s %q, want in_progress with the limit", last.Result, last.ErrorText())
		}
		close(c.end)
		c.all.Wait()
		other.all.Wait()
	})
}

// Case 88: calls of Do share the limits.
func TestWaitingCallsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), created)
		call := chargeCall("k", nil)
		call.Route = s.MustRoute(policy.Wait(time.Hour))
		for range 2 {
			end := make(chan struct{})
			var refused, done atomic.Int64
			var all sync.WaitGroup
			for range 1 + mostOfKey + 5 {
				all.Go(func() {
					_, _, err := core.Do(t.Context(), s.Engine, call, func(context.Context) (int, error) { <-end; return 1, nil })
					switch {
					case err == nil:
						done.Add(1)
					case errors.Is(err, core.ErrInProgress):
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			testkit.Equal(t, refused.Load(), 5, "calls that are refused")
			close(end)
			all.Wait()
			testkit.Equal(t, done.Load(), 1+mostOfKey, "calls that have a result")
			call.Key += "k"
		}
	})
}
