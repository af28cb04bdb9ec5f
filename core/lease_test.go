package core_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
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

// Case 1: or duplicates wait and get the response.
func TestConcurrentRequestsThatWaitGetTheResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		slow := createdAfter(3 * time.Second)
		local := newService(t, store, slow, policy.Wait(time.Minute))
		remote := newService(t, store, slow, policy.Wait(time.Minute)) // another process, which polls
		var group sync.WaitGroup
		var responses, replays atomic.Int64
		for _, s := range []*service{local, local, local, remote, remote} {
			group.Go(func() {
				w := s.post(t.Context(), "k", payment)
				if w.Code == http.StatusCreated {
					responses.Add(1)
				}
				if w.Header().Get("X-Idempotent-Replay") != "" {
					replays.Add(1)
				}
			})
		}
		group.Wait()
		if local.runs.Load()+remote.runs.Load() != 1 || responses.Load() != 5 || replays.Load() != 4 {
			t.Errorf("%d+%d runs, %d responses, %d of them replays", local.runs.Load(), remote.runs.Load(), responses.Load(), replays.Load())
		}
	})
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), createdAfter(time.Minute), policy.Wait(5*time.Second))
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { s.post(t.Context(), "k", payment) })
		synctest.Wait()

		start := time.Now()
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		testkit.Equal(t, time.Since(start), 5*time.Second, "the time that it waited")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		s.post(ctx, "k", payment)
		testkit.Equal(t, time.Since(start), time.Second, "the wait for a client that disconnected")
	})
}

// failsFirst takes some time. Its first run releases the key, and the others are created's.
func failsFirst(d time.Duration) http.HandlerFunc {
	var runs atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		advance(d)
		if runs.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		created(w, r)
	}
}

// A handler may run for many times its LockTTL, because the lease is renewed.
func TestHandlerFourTimesLongerThanLockTTLRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		slow := createdAfter(4 * time.Second)
		first := newService(t, store, slow, policy.LockTTL(time.Second))
		other := newService(t, store, slow, policy.LockTTL(time.Second))
		response := make(chan *httptest.ResponseRecorder)
		go func() { response <- first.post(t.Context(), "k", payment) }()
		for range 39 {
			advance(100 * time.Millisecond)
			wantCode(t, other.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		}
		wantFirst(t, <-response)
		wantReplay(t, other.post(t.Context(), "k", payment))
		first.wantRuns(t, 1)
		other.wantRuns(t, 0)
		if n := store.extends.Load(); n < 11 || n > 12 {
			t.Errorf("%d renewals in 4s, want one every third of a second", n)
		}
	})
}

// untilCancelled runs until its context ends, and reports the cause.
func untilCancelled(cause *error) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		*cause = context.Cause(r.Context())
	}
}

// Case 7: another attempt holds the lease, or the store cannot be reached until the lease may have
// ended. The handler's context ends with that cause.
func TestLeaseThatCannotBeRenewedIsLostInTime(t *testing.T) {
	t.Parallel()
	type row struct {
		fault func(func() error) error
		after time.Duration
	}
	testkit.EachInBubble(t, map[string]row{
		"lost at the first renewal": {failing(storage.ErrLeaseLost), time.Second},
		"unreachable to the end":    {failUnapplied, 3 * time.Second},
	}, func(t *testing.T, row row) {
		store := newFaultyStore()
		var cause error
		s := newService(t, store, untilCancelled(&cause), policy.LockTTL(3*time.Second))
		store.set(&store.extend)(row.fault)
		start := time.Now()
		w := s.post(t.Context(), "k", payment)
		if after := time.Since(start); !errors.Is(cause, storage.ErrLeaseLost) || after != row.after {
			t.Errorf("cancelled after %v by %v, want ErrLeaseLost after %v", after, cause, row.after)
		}
		synctest.Wait() // until the event, which follows the end of the context
		s.wantEvent(t, event.LeaseLost, 1)
		if err := s.events.last(event.LeaseLost).Err; !errors.Is(err, storage.ErrLeaseLost) || errors.Is(err, errStoreDown) != (row.after > time.Second) {
			t.Errorf("the event says %v", err)
		}
		if row.after == time.Second {
			wantCode(t, w, http.StatusConflict, problem.InProgress)
		} else if s.events.count(event.StoreError) == 0 {
			t.Error("the failed renewals were not reported")
		}
	})
}

// Once another attempt holds the key, the store decides about duplicates, although a
// handler that ignores its context still runs here.
func TestAfterALostLeaseTheStoreDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setExtend := store.set(&store.extend)
		stubborn := newService(t, store, createdAfter(time.Minute), policy.LockTTL(3*time.Second))
		winner := newService(t, store, created, policy.LockTTL(3*time.Second))

		setExtend(failUnapplied)
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { stubborn.post(t.Context(), "k", payment) })
		advance(2750 * time.Millisecond)
		setExtend(failing(storage.ErrLeaseLost))
		advance(time.Second)
		wantFirst(t, winner.post(t.Context(), "k", payment))
		wantReplay(t, stubborn.post(t.Context(), "k", payment))
	})
}

// Each renewal is an event, whatever its result.
func TestRenewalsAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setExtend := store.set(&store.extend)
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			advance(2500 * time.Millisecond)
			setExtend(failUnapplied)
			advance(600 * time.Millisecond)
			setExtend(failing(storage.ErrLeaseLost))
			<-r.Context().Done()
			created(w, r)
		}, policy.LockTTL(3*time.Second))
		s.post(t.Context(), "k", payment)
		synctest.Wait() // until the last event, which follows the end of the context
		renewals := make(map[event.Result]int)
		for _, one := range s.events.seen() {
			if one.Renewal {
				renewals[one.Result]++
			}
		}
		if want := (map[event.Result]int{event.LeaseRenewed: 2, event.StoreError: 1, event.LeaseLost: 1}); !maps.Equal(renewals, want) {
			t.Errorf("the renewals are %v, want %v", renewals, want)
		}
	})
}

func TestMaxRunCancelsTheHandlerAndRenewsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var cause error
		s := newService(t, store, untilCancelled(&cause), policy.LockTTL(3*time.Second), policy.MaxRun(5*time.Second))
		start := time.Now()
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.HandlerCancelled)
		if !errors.Is(cause, core.ErrRunTooLong) || time.Since(start) != 5*time.Second {
			t.Errorf("cancelled after %v by %v", time.Since(start), cause)
		}
		synctest.Wait() // until the event, which follows the end of the context
		s.wantEvent(t, event.RunTooLong, 1)

		// A handler that ignores its context keeps the key until the lease has ended.
		stubborn := newService(t, store, createdAfter(30*time.Second), policy.LockTTL(3*time.Second), policy.MaxRun(5*time.Second))
		other := newService(t, store, created, policy.LockTTL(3*time.Second))
		before := store.extends.Load()
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { stubborn.post(t.Context(), "k2", payment) })
		advance(20 * time.Second)
		testkit.Equal(t, store.extends.Load()-before, 4, "renewals")
		wantCode(t, stubborn.post(t.Context(), "k2", payment), http.StatusConflict, problem.InProgress)
		wantFirst(t, other.post(t.Context(), "k2", payment))
	})
}

// Case 8: the handler's context outlives the client, and keeps values and deadline.
func TestHandlerContextIsDetachedFromTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		var value any
		var err error
		var ended time.Duration
		start := time.Now()
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			value = r.Context().Value(valueKey{})
			advance(2 * time.Second)
			err = r.Context().Err()
			created(w, r)
			<-r.Context().Done() // at the deadline that middleware set
			ended = time.Since(start)
		})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "kept"), 5*time.Second)
		defer cancel()
		gone, hangUp := context.WithCancel(ctx)
		time.AfterFunc(time.Second, hangUp)
		s.post(gone, "k", payment)
		if value != "kept" || err != nil {
			t.Errorf("value %v, error %v after the client hung up", value, err)
		}
		testkit.Equal(t, ended, 5*time.Second, "the end of the context")
		wantReplay(t, s.post(t.Context(), "k", payment))
		s.wantRuns(t, 1)
	})
}
