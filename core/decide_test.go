package core_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 11: the claim was applied and its reply lost. The same caller's second try
// gets the lease.
func TestClaimWhoseReplyWasLostIsRecognised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setAcquire := store.set(&store.acquire)
		setAcquire(func(apply func() error) error {
			setAcquire(nil)
			return failApplied(apply)
		})
		wantFirst(t, newService(t, store, created).post(t.Context(), "k", payment))
		wantCalls(t, &store.acquires, 2)
	})
}

// Case 12: with the store unreachable, a fail-closed route responds with 503 in time
// and runs no handler. A claim that may have been applied is released.
func TestStoreUnavailableFailClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setAcquire := store.set(&store.acquire)
		s := newService(t, store, created)
		setAcquire(func(apply func() error) error {
			_ = apply()
			return errStoreDown
		})
		start := time.Now()
		w := s.post(t.Context(), "k", payment)
		wantCode(t, w, http.StatusServiceUnavailable, problem.StoreUnavailable)
		testkit.Equal(t, w.Header().Get("Retry-After"), "1", "Retry-After")
		if waited := time.Since(start); waited > policy.DefaultStoreTimeout {
			t.Errorf("responded after %v", waited)
		}
		s.wantRuns(t, 0)
		s.wantEvent(t, event.StoreError, 1)
		s.wantEvent(t, event.Unavailable, 1)

		synctest.Wait()
		setAcquire(nil)
		wantFirst(t, s.post(t.Context(), "k", payment))
	})
}

// Case 11: a claim that timed out reaches the store after its release, and is released
// too.
func TestClaimThatArrivesAfterItsRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		setAcquire := store.set(&store.acquire)
		setAcquire(func(apply func() error) error {
			setAcquire(failUnapplied)
			time.AfterFunc(400*time.Millisecond, func() { _ = apply() })
			return errStoreDown
		})
		s := newService(t, lateStore{store}, created)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		setAcquire(nil)
		advance(time.Second)
		wantFirst(t, s.post(t.Context(), "k", payment))
	})
}

// lateStore lets a claim arrive though its context has ended.
type lateStore struct{ *faultyStore }

func (s lateStore) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	return s.faultyStore.Acquire(context.WithoutCancel(ctx), request.Claim())
}

// Case 12: a blackholed store.
func TestBlackholedStoreIsGivenUpWithinStoreTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.acquire, &store.release)(hang)
		s := newService(t, store, created, policy.StoreTimeout(200*time.Millisecond))
		start := time.Now()
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		testkit.Equal(t, time.Since(start), 200*time.Millisecond, "the time until the response")
		advance(time.Minute) // the release is given up when the lease would have ended
	})
}

// Releases of unused claims at a broken store are bounded.
func TestReleasesOfUnusedClaimsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.acquire, &store.release)(failUnapplied)
		s := newService(t, store, created)
		testkit.Concurrently(200, func(i int) { s.post(t.Context(), fmt.Sprint(i), payment) })
		synctest.Wait()
		if n := store.releases.Load(); n == 0 || n > 64*2 {
			t.Errorf("%d releases of unused claims", n)
		}
		advance(time.Minute)
	})
}

// A run without protection has the keys of a guarded one, so that a provider recognizes a retry. It
// has no lease, and keeps nothing.
func TestKeysUnderFailOpen(t *testing.T) {
	t.Parallel()
	store, keys := newFaultyStore(), []string(nil)
	note := func(ctx context.Context) {
		_, leased := core.LeaseFrom(ctx)
		keys = append(keys, fmt.Sprintf("%s %s leased %t kept %t", core.DeriveKey(ctx, "charge"), core.KeyFrom(ctx), leased, core.KeepFor(ctx, time.Hour)))
		failure.MarkRetryable(ctx)
	}
	s := newService(t, store, func(_ http.ResponseWriter, r *http.Request) { note(r.Context()) }, policy.OnStoreError(policy.FailOpen))
	call := core.Call{Scope: "s", Name: "f", Key: "k", Route: s.MustRoute(policy.OnStoreError(policy.FailOpen))}
	for _, fault := range []func(func() error) error{nil, failUnapplied} {
		store.set(&store.acquire)(fault)
		s.post(t.Context(), "k", payment)
		_, _, err := core.Do(t.Context(), s.Engine, call, func(ctx context.Context) (int, error) { note(ctx); return 0, nil })
		testkit.Must(t, err)
	}
	for i, guarded := range keys[:2] {
		testkit.Equal(t, keys[i+2], strings.ReplaceAll(guarded, "true", "false"), "the keys")
		if !strings.Contains(guarded, " k leased true kept true") {
			t.Errorf("a guarded run has %s", guarded)
		}
	}
}

// Cases 20, 38 and 95: a record that cannot be read, a missing right, and a claim that the store
// refuses for good are no outage. No handler runs, even under FailOpen, and the claim is repeated
// only where waiting helps.
func TestCorruptRecordNeverRuns(t *testing.T) {
	t.Parallel()
	type row struct {
		err   error
		lasts bool
	}
	testkit.EachInBubble(t, map[string]row{
		"corrupt":      {storage.ErrCorruptRecord, true},
		"unreadable":   {storage.ErrUnreadable, false},
		"forbidden":    {storage.ErrStoreForbidden, true},
		"not storable": {storage.ErrNotStorable, true},
	}, func(t *testing.T, row row) {
		for _, mode := range []policy.StoreErrorMode{policy.FailClosed, policy.FailOpen} {
			store := newFaultyStore()
			store.set(&store.acquire)(failing(fmt.Errorf("evalsha: %w", row.err)))
			s := newService(t, store, created, policy.OnStoreError(mode))
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
			s.wantRuns(t, 0)
			s.wantEvent(t, event.StoreError, 1)
			testkit.Equal(t, store.acquires.Load() == 1, row.lasts, "%v: whether one claim was made", mode)
			store.set(&store.acquire)(nil)
			wantFirst(t, s.post(t.Context(), "k", payment))
		}
	})
}

// sealing stands for a store of another process: it leaves sealed records.
type sealing struct{ storage.Store }

func (s sealing) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	res.Header, res.Body = storage.Header{{Op: storage.Sealed, Name: "format", Value: "1"}}, []byte("ciphertext")
	return s.Store.Complete(ctx, l, res)
}

// A sealed record is never replayed by an engine whose store has no seal.
func TestSealedRecordIsNotReplayedWithoutItsSeal(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.StoreErrorMode{policy.FailClosed, policy.FailOpen} {
		shared := newFaultyStore()
		wantFirst(t, newService(t, sealing{shared}, created).post(t.Context(), "k", payment))
		shared.acquires.Store(0)
		s := newService(t, shared, created, policy.OnStoreError(mode))
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		s.wantRuns(t, 0)
		s.wantEvent(t, event.StoreError, 1)
		wantCalls(t, &shared.acquires, 1)
	}
}

// Case 21: a full store accepts no new key, and keeps its records.
func TestFullStoreRefusesNewKeysOnly(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(memstore.MaxRecords(1)), created)
	wantFirst(t, s.post(t.Context(), "k1", payment))
	wantCode(t, s.post(t.Context(), "k2", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
	wantReplay(t, s.post(t.Context(), "k1", payment))
	s.wantRuns(t, 1)
}

// A store restarts without its data while a handler runs. This process still knows the
// run, and the next renewal restores the record for other processes.
func TestStoreThatForgetsTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		slow := createdAfter(30 * time.Second)
		here := newService(t, store, slow, policy.LockTTL(3*time.Second))
		there := newService(t, store, slow, policy.LockTTL(3*time.Second))
		var group sync.WaitGroup
		group.Go(func() { wantFirst(t, here.post(t.Context(), "k", payment)) })
		advance(10 * time.Second)
		store.forget()
		wantCode(t, here.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		advance(1500 * time.Millisecond) // a renewal
		wantCode(t, there.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		group.Wait()
		wantReplay(t, there.post(t.Context(), "k", payment))
		here.wantRuns(t, 1)
		there.wantRuns(t, 0)
	})
}

// Begin and Finish guard another kind of request than net/http's.
func TestBeginAndFinish(t *testing.T) {
	t.Parallel()
	store := &recording{Store: memstore.New()}
	engine := engineOf(t, store)
	route := engine.MustRoute()
	request := core.Request{Scope: "alice", Method: "JOB", Path: "send-invoice", Key: "42", Fingerprint: "sha256:1"}
	decision := engine.Begin(t.Context(), route, request)
	if decision.Run == nil || decision.Run.Lease().Attempt != 1 {
		t.Fatalf("the first call got %+v", decision)
	}
	if refusal := engine.Begin(t.Context(), route, request).Problem; refusal == nil || refusal.Code != problem.InProgress {
		t.Errorf("a concurrent call got %+v", refusal)
	}
	testkit.Equal(t, core.KeyFrom(decision.Run.Context()), "42", "KeyFrom")
	testkit.Equal(t, store.claims[0].Origin.KeyHash, event.KeyHash("42"), "the hash of the key in the claim")
	testkit.Must(t, engine.Finish(decision.Run, failure.Outcome{Status: http.StatusOK}, core.Response{Body: []byte("sent")}))
	if decision.Run.Context().Err() == nil {
		t.Error("the run's context outlives Finish")
	}
	if err := engine.Finish(decision.Run, failure.Outcome{Panicked: true}, core.Response{}); err == nil { // as a defer for panics may do
		t.Error("a second Finish returned no error")
	}
	if record := engine.Begin(t.Context(), route, request).Record; record == nil || string(record.Body) != "sent" || record.Status != http.StatusOK {
		t.Errorf("a later call got %+v", record)
	}
	for _, status := range []int{-1, 42, 1000} { // shared stores read no such record back
		request.Key = "status " + strconv.Itoa(status)
		run := engine.Begin(t.Context(), route, request).Run
		testkit.Must(t, engine.Finish(run, failure.Outcome{}, core.Response{Status: status}))
		if refusal := engine.Begin(t.Context(), route, request).Problem; refusal == nil || refusal.Code != problem.NotReplayable {
			t.Errorf("a call after the status %d got %+v", status, refusal)
		}
	}
	request.Key = "no context"
	func() {
		defer func() { _ = recover() }()
		var none context.Context
		engine.Begin(none, route, request)
	}()
	run := engine.Begin(t.Context(), route, request).Run
	if run == nil {
		t.Fatal("Begin with a nil context panicked after its claim")
	}
	testkit.Must(t, engine.Finish(run, failure.Outcome{Status: http.StatusOK}, core.Response{}))
	request.Key = ""
	if refusal := engine.Begin(t.Context(), route, request).Problem; refusal == nil || refusal.Code != problem.KeyMissing {
		t.Errorf("a call without a key got %+v", refusal)
	}
	if refusal := engine.Begin(t.Context(), nil, core.Request{Key: "k"}).Problem; refusal == nil || refusal.Code != problem.PrincipalMissing {
		t.Errorf("a request without a scope got %+v", refusal)
	}
	if free := engine.Begin(t.Context(), engine.MustRoute(policy.Required(false)), request); free != (core.Decision{}) {
		t.Errorf("a call that needs no key got %+v, want a run without protection", free)
	}
	shutdown(t, engine)
}
