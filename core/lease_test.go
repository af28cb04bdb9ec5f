package core_test

import (
	"context"
	"errors"
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
	"github.com/oncekey/oncekey/policy"
)

// Case 1: one of a thousand runs, the others are told to come back.
func TestThousandConcurrentRequestsRunOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			<-release
			created(w, r)
		})
		var group sync.WaitGroup
		var conflicts, firsts atomic.Int64
		for range 1000 {
			group.Go(func() {
				switch w := s.post(t.Context(), "k", payment); w.Code {
				case http.StatusCreated:
					firsts.Add(1)
				case http.StatusConflict:
					if w.Header().Get("Retry-After") == "1" {
						conflicts.Add(1)
					}
				}
			})
		}
		synctest.Wait()
		close(release)
		group.Wait()
		s.wantRuns(t, 1)
		if firsts.Load() != 1 || conflicts.Load() != 999 {
			t.Errorf("%d first answers and %d conflicts", firsts.Load(), conflicts.Load())
		}
		wantReplay(t, s.post(t.Context(), "k", payment))
	})
}

// Case 1: or they wait and get the answer.
func TestConcurrentRequestsThatWaitGetTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		slow := func(w http.ResponseWriter, r *http.Request) {
			advance(3 * time.Second)
			created(w, r)
		}
		here := newService(t, store, slow, policy.Wait(time.Minute))
		there := newService(t, store, slow, policy.Wait(time.Minute)) // another process: it polls
		var group sync.WaitGroup
		var answers, replays atomic.Int64
		for _, s := range []*service{here, here, here, there, there} {
			group.Go(func() {
				w := s.post(t.Context(), "k", payment)
				if w.Code == http.StatusCreated {
					answers.Add(1)
				}
				if w.Header().Get("X-Idempotent-Replay") != "" {
					replays.Add(1)
				}
			})
		}
		group.Wait()
		if here.runs.Load()+there.runs.Load() != 1 || answers.Load() != 5 || replays.Load() != 4 {
			t.Errorf("%d+%d runs, %d answers, %d of them replays", here.runs.Load(), there.runs.Load(), answers.Load(), replays.Load())
		}
	})
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			advance(time.Minute)
			created(w, r)
		}, policy.Wait(5*time.Second))
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { s.post(t.Context(), "k", payment) })
		synctest.Wait()

		start := time.Now()
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("waited %v, want the policy's 5s", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		s.post(ctx, "k", payment)
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v for a client that was gone after 1s", waited)
		}
	})
}

func TestWaiterRunsWhenTheKeyIsFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			advance(time.Second)
			if tries.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			created(w, r)
		}, policy.Wait(time.Minute))
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { s.post(t.Context(), "k", payment) })
		synctest.Wait()
		wantFirst(t, s.post(t.Context(), "k", payment))
		s.wantRuns(t, 2)
	})
}

// A handler may outlive its LockTTL many times: the lease is renewed.
func TestHandlerFourTimesLongerThanLockTTLRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		slow := func(w http.ResponseWriter, r *http.Request) {
			advance(4 * time.Second)
			created(w, r)
		}
		first := newService(t, store, slow, policy.LockTTL(time.Second))
		other := newService(t, store, slow, policy.LockTTL(time.Second))
		answer := make(chan *httptest.ResponseRecorder)
		go func() { answer <- first.post(t.Context(), "k", payment) }()
		for range 39 {
			advance(100 * time.Millisecond)
			wantCode(t, other.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		}
		wantFirst(t, <-answer)
		wantReplay(t, other.post(t.Context(), "k", payment))
		first.wantRuns(t, 1)
		other.wantRuns(t, 0)
		if n := store.extends.Load(); n < 11 || n > 12 {
			t.Errorf("%d renewals in 4s, want one every third of a second", n)
		}
	})
}

// A claim that took longer than the lease it brought is no lease: somebody else
// may have taken the key over in the meantime.
func TestClaimSlowerThanItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var slow atomic.Int64
		store.set(&store.acquire)(func(apply func() error) error {
			err := apply()
			if slow.Add(-1) >= 0 {
				advance(100 * time.Millisecond)
			}
			return err
		})
		s := newService(t, store, created, policy.LockTTL(100*time.Millisecond))
		slow.Store(1)
		wantFirst(t, s.post(t.Context(), "once", payment))
		slow.Store(100)
		wantCode(t, s.post(t.Context(), "always", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		s.wantRuns(t, 1)
	})
}

// untilCancelled runs until its context ends, and tells why it did.
func untilCancelled(cause *error) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		*cause = context.Cause(r.Context())
	}
}

// Case 7: the lease is somebody else's. The handler is told, with the cause.
func TestLeaseLostToSomebodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var cause error
		s := newService(t, store, untilCancelled(&cause), policy.LockTTL(3*time.Second))
		store.set(&store.extend)(func(func() error) error { return storage.ErrLeaseLost })
		start := time.Now()
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		if !errors.Is(cause, storage.ErrLeaseLost) {
			t.Errorf("the cause is %v", cause)
		}
		if after := time.Since(start); after != time.Second {
			t.Errorf("noticed after %v, want at the first renewal", after)
		}
		s.wantEvent(t, event.LeaseLost, 1)
	})
}

// Case 7: the store cannot be reached until the lease may have ended.
func TestLeaseThatCannotBeRenewedIsLostInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var cause error
		s := newService(t, store, untilCancelled(&cause), policy.LockTTL(3*time.Second))
		store.set(&store.extend)(failUnapplied)
		start := time.Now()
		s.post(t.Context(), "k", payment)
		if !errors.Is(cause, storage.ErrLeaseLost) {
			t.Errorf("the cause is %v", cause)
		}
		if after := time.Since(start); after != 3*time.Second {
			t.Errorf("cancelled after %v, want when the lease may have ended", after)
		}
		s.wantEvent(t, event.LeaseLost, 1)
		if s.events.count(event.StoreError) == 0 {
			t.Error("the failed renewals were not reported")
		}
	})
}

// Once somebody else has the key, the store decides about duplicates, although
// a handler that does not listen still runs here.
func TestAfterALostLeaseTheStoreDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setExtend := store.set(&store.extend)
		stubborn := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			advance(time.Minute)
			created(w, r)
		}, policy.LockTTL(3*time.Second))
		winner := newService(t, store, created, policy.LockTTL(3*time.Second))

		setExtend(failUnapplied)
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { stubborn.post(t.Context(), "k", payment) })
		advance(2750 * time.Millisecond)
		setExtend(func(func() error) error { return storage.ErrLeaseLost })
		advance(time.Second)
		wantFirst(t, winner.post(t.Context(), "k", payment))
		wantReplay(t, stubborn.post(t.Context(), "k", payment))
	})
}

// A renewal that fails once is tried again before the lease ends.
func TestRenewalSurvivesABlip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			advance(10 * time.Second)
			created(w, r)
		}, policy.LockTTL(3*time.Second))
		setExtend := store.set(&store.extend)
		setExtend(failUnapplied)
		time.AfterFunc(2500*time.Millisecond, func() { setExtend(nil) })
		wantFirst(t, s.post(t.Context(), "k", payment))
		s.wantEvent(t, event.LeaseLost, 0)
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
		s.wantEvent(t, event.RunTooLong, 1)

		// One that does not listen keeps its key until its lease has run out.
		stubborn := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			advance(30 * time.Second)
			created(w, r)
		}, policy.LockTTL(3*time.Second), policy.MaxRun(5*time.Second))
		other := newService(t, store, created, policy.LockTTL(3*time.Second))
		before := store.extends.Load()
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { stubborn.post(t.Context(), "k2", payment) })
		advance(20 * time.Second)
		if n := store.extends.Load() - before; n != 4 {
			t.Errorf("%d renewals, want those of the first 5 seconds", n)
		}
		wantCode(t, stubborn.post(t.Context(), "k2", payment), http.StatusConflict, problem.InProgress)
		wantFirst(t, other.post(t.Context(), "k2", payment))
	})
}

// A handler that begins after a wait for another one has the whole of MaxRun: the
// wait is not its own time.
func TestMaxRunBeginsWithTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			advance(4 * time.Second)
			if tries.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if err := r.Context().Err(); err != nil {
				t.Errorf("the context has ended after 4s of MaxRun's 5s: %v", context.Cause(r.Context()))
			}
			created(w, r)
		}, policy.Wait(time.Minute), policy.MaxRun(5*time.Second))
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { s.post(t.Context(), "k", payment) })
		synctest.Wait()
		wantFirst(t, s.post(t.Context(), "k", payment))
	})
}

// Case 8: the handler's context outlives the client, and keeps what it must.
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
			<-r.Context().Done() // the deadline that middleware set still counts
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
		if ended != 5*time.Second {
			t.Errorf("the context ended after %v, want at the middleware's deadline", ended)
		}
		wantReplay(t, s.post(t.Context(), "k", payment))
		s.wantRuns(t, 1)
	})
}
