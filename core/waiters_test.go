package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	"github.com/oncekey/oncekey/policy"
)

// Case 88: a waiting request holds its body and no parse, whether the handler runs in the
// same process or in another.
func TestWaiterHoldsItsBodyAlone(t *testing.T) { //nolint:paralleltest // others would allocate in between
	if raceDetector {
		t.Skip("the race detector allocates too")
	}
	const waiters, size = 24, 1 << 20
	for _, body := range []largeBody{largeForm(size), largeDocument(size), largeMap(size), largeUpload(size)} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%.30s, elsewhere %t", body.mediaType, elsewhere), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					end := make(chan struct{})
					store := memstore.New()
					handle := func(w http.ResponseWriter, r *http.Request) {
						<-end
						created(w, r)
					}
					opts := []policy.Option{policy.Wait(time.Hour), policy.MaxRequestBytes(1 << 30)}
					holder := newService(t, store, handle, opts...)
					waiting := holder
					if elsewhere {
						waiting = newService(t, store, handle, opts...)
					}
					var all sync.WaitGroup
					all.Go(func() { body.send(holder.handler, body.text) })
					synctest.Wait()
					text := body.text
					if body.again != nil {
						text = body.again // not a retry by its bytes
					}
					_, before := memoryNow()
					for range waiters {
						all.Go(func() { wantReplay(t, body.send(waiting.handler, text)) })
					}
					synctest.Wait()
					_, after := memoryNow()
					if held := float64(after-before) / waiters / size; held > 1.3 {
						t.Errorf("a waiter holds %.2f times its body, want at most twice", held)
					} else {
						t.Logf("a waiter holds %.2f times its body", held)
					}
					close(end)
					all.Wait()
					holder.wantRuns(t, 1)
				})
			})
		}
	}
}

// Case 88: so does a waiting call of Do.
func TestWaitingCallHoldsItsInputAlone(t *testing.T) { //nolint:paralleltest // others would allocate in between
	if raceDetector {
		t.Skip("the race detector allocates too")
	}
	synctest.Test(t, func(t *testing.T) {
		const waiters, size = 24, 1 << 20
		input := map[string]string{}
		for i := range 2000 {
			input[fmt.Sprintf("m%05d", i)] = strings.Repeat("v", size/2000-12)
		}
		store, end := memstore.New(), make(chan struct{})
		var all sync.WaitGroup
		begin := func(s *till) {
			call := chargeCall("k", input)
			call.Policy = s.MustRoute(policy.Wait(time.Hour))
			all.Go(func() {
				if _, _, err := core.Do(t.Context(), s.Engine, call, func(context.Context) (int, error) { <-end; return 1, nil }); err != nil {
					t.Error(err)
				}
			})
		}
		begin(newTill(t, store))
		synctest.Wait()
		other := newTill(t, store)
		_, before := memoryNow()
		for range waiters {
			begin(other)
		}
		synctest.Wait()
		_, after := memoryNow()
		if held := float64(after-before) / waiters / size; held > 1.5 {
			t.Errorf("a waiter holds %.2f times its input, want at most twice", held)
		}
		close(end)
		all.Wait()
	})
}

// Case 88: a waiter that runs in the end has a sketch, and one that differs is told the
// members.
func TestWaiterReadsItsBodyAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var tries atomic.Int64
		handle := func(w http.ResponseWriter, r *http.Request) {
			advance(time.Second)
			if tries.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			created(w, r)
		}
		first, second := newService(t, store, handle), newService(t, store, handle, policy.Wait(time.Minute))
		var all sync.WaitGroup
		all.Go(func() { first.post(t.Context(), "k", payment) })
		synctest.Wait()
		wantFirst(t, second.post(t.Context(), "k", payment)) // waited for the other process
		all.Wait()
		wantCode(t, first.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		if seen := first.events.seen(); !slices.Equal(seen[len(seen)-1].Differs, []string{"amount"}) {
			t.Errorf("the members %q differ, want amount", seen[len(seen)-1].Differs)
		}
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
	if got := c.refused.Swap(0); got != n {
		t.Errorf("%d requests are refused, want %d", got, n)
	}
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
		if last := other.events.seen()[9]; last.Result != event.InProgress || last.Err == nil {
			t.Errorf("the event %+v does not name the limit", last)
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
		s := newTill(t, memstore.New())
		call := chargeCall("k", nil)
		call.Policy = s.MustRoute(policy.Wait(time.Hour))
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
			if refused.Load() != 5 {
				t.Errorf("%d calls are refused, want 5", refused.Load())
			}
			close(end)
			all.Wait()
			if done.Load() != 1+mostOfKey {
				t.Errorf("%d calls have a result", done.Load())
			}
			call.Key += "k"
		}
	})
}
