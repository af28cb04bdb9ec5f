package core

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The state of a run is the largest allocation of a first-time request. Above this size,
// the runtime takes 256 bytes more for it.
func TestExecutionFits(t *testing.T) {
	t.Parallel()
	const class, header = 1792, 8
	if size := unsafe.Sizeof(execution{}); size > class-header {
		t.Errorf("an execution has %d bytes, want at most %d", size, class-header)
	}
}

// Every idempotency key, scope and route has a sketch key of its own. It has no bytes
// in common with the hash of the idempotency key that records and events show.
func TestSketchKey(t *testing.T) {
	t.Parallel()
	seen := map[[16]byte]Request{}
	for _, r := range []Request{
		{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k1"},
		{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k2"},
		{Scope: "bob", Method: http.MethodPost, Path: "/payments", Key: "k1"},
		{Scope: "alice", Method: http.MethodPost, Path: "/orders", Key: "k1"},
		{Scope: "alice", Method: http.MethodPut, Path: "/payments", Key: "k1"},
	} {
		c := claimant{identity: &identity{request: r, digest: digestOf("", &r)}}
		key := c.sketchKey()
		if other, ok := seen[key]; ok {
			t.Errorf("%+v and %+v have one sketch key", r, other)
		}
		seen[key] = r
		secret := key
		for i, b := range c.identity.digest[:len(key)] {
			secret[i] ^= b // a reader of the store knows these bytes
		}
		for from := range len(secret) - 4 {
			if known := event.KeyHash(r.Key); strings.Contains(known, hex.EncodeToString(secret[from:from+4])) {
				t.Errorf("the hash %s shows a part of the secret %x", known, secret)
			}
		}
	}
}

// countedSettlement is a run whose responses are kept. It counts its ends.
type countedSettlement struct {
	concluded, finished int
	response            Response
	classified          []int
}

func (*countedSettlement) outermost() uintptr { return 0 }

func (*countedSettlement) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	problem.Write(w, r, *p)
}

func (*countedSettlement) cause() error { return nil }

func (s *countedSettlement) classify(outcome failure.Outcome) failure.Class {
	s.classified = append(s.classified, outcome.Status)
	return failure.ClassCache
}

func (s *countedSettlement) conclude(outcome failure.Outcome) (failure.Class, failure.Outcome) {
	s.concluded++
	return failure.ClassCache, outcome
}

func (s *countedSettlement) finish(_ failure.Class, _ failure.Outcome, response Response) (time.Time, error) {
	s.finished++
	s.response = response
	return time.Time{}, nil
}

func (s *countedSettlement) stream(failure.Outcome, Response) error { return nil }

func (s *countedSettlement) close() {}

// A response that is left to the router cannot be kept. Where it would have to be, the guard responds in its place, and the
// run is concluded once: the class of the guard's response is asked for without ending the run again.
func TestLeftToRouterConcludesOnce(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	run := &countedSettlement{}
	var c capture
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", http.NoBody)
	c.begin(w, r, run, &responder{}, 1<<20, nil)
	LeaveToRouter(&c, http.StatusNotFound)
	c.finish(false)
	if run.concluded != 1 || run.finished != 1 || len(run.classified) != 1 || run.classified[0] != http.StatusInternalServerError {
		t.Errorf("the run was concluded %d times and finished %d times, and asked about %v; want 1, 1 and 500", run.concluded, run.finished, run.classified)
	}
	if w.Code != http.StatusInternalServerError || run.response.Status != http.StatusInternalServerError || string(run.response.Body) != w.Body.String() {
		t.Errorf("the client has %d %s, the store %+v", w.Code, w.Body, run.response)
	}
}

// waitersOf is a run and the requests that wait for it, in two processes.
type waitersOf struct {
	here, elsewhere *Engine
	run             *Run // in here
	cancel          func()
}

// Case 88: however a wait ends, its place is free again.
func TestWaitersReturnToZero(t *testing.T) {
	t.Parallel()
	outcome := func(response *policy.Response, err error) policy.Option {
		return policy.OnAbandoned(policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) { return response, err }))
	}
	type test struct {
		end    func(w waitersOf)
		after  time.Duration
		option policy.Option
	}
	testkit.EachInBubble(t, map[string]test{
		"the run ends":           {end: func(w waitersOf) { w.run.endUnused(nil) }},
		"the client disconnects": {end: func(w waitersOf) { w.cancel() }},
		"Wait ends":              {after: time.Minute},
		"the engines shut down": {end: func(w waitersOf) {
			w.here.ledger.Close()
			w.elsewhere.ledger.Close()
		}},
		"the holder crashes":             {end: crash},
		"a RecoverFunc finds a response": {crash, 0, outcome(&policy.Response{Status: http.StatusCreated}, nil)},
		"a RecoverFunc finds nothing":    {crash, 0, outcome(nil, nil)},
		"a RecoverFunc fails":            {crash, 0, outcome(nil, errors.New("unreachable"))},
		"a RecoverFunc panics": {crash, 0, policy.OnAbandoned(policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) {
			panic(http.ErrAbortHandler)
		}))},
	}, func(t *testing.T, test test) {
		w := beginWaiters(t, test.option)
		if test.end != nil {
			test.end(w)
		}
		time.Sleep(test.after + time.Second) //nolint:forbidigo // the bubble's clock, not the machine's
		wantWaiters(t, w.elsewhere, 0, 0)
		w.cancel()
		synctest.Wait()
		wantWaiters(t, w.here, 0, 0)
		w.here.ledger.Abort()
		w.elsewhere.ledger.Abort()
	})
}

// crash abandons the run's key, as the end of its lease does.
func crash(w waitersOf) { w.run.hold.Abandon() }

// beginWaiters begins a run, and requests that wait for it. The option may be nil.
func beginWaiters(t *testing.T, option policy.Option) (w waitersOf) {
	t.Helper()
	store := memstore.New()
	engine := func() *Engine {
		e, err := New(store, SharedScope, WithObserver(event.Log(slog.New(slog.DiscardHandler))))
		testkit.Must(t, err)
		return e
	}
	w.here, w.elsewhere = engine(), engine()
	request := Request{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k", Fingerprint: "sha256:1"}
	w.run = w.here.Begin(t.Context(), nil, request).Run
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w.cancel = cancel
	for _, e := range []*Engine{w.here, w.elsewhere, w.elsewhere} {
		opts := []policy.Option{policy.Wait(time.Minute)}
		if option != nil {
			opts = append(opts, option)
		}
		route := e.MustRoute(opts...)
		go func() {
			defer func() { _ = recover() }() // of a guard that passes a panic on
			if late := e.Begin(ctx, route, request).Run; late != nil {
				late.endUnused(nil)
			}
		}()
	}
	synctest.Wait()
	wantWaiters(t, w.here, 1, 1)
	wantWaiters(t, w.elsewhere, 2, 1)
	return w
}

func wantWaiters(t *testing.T, e *Engine, all, keys int) {
	t.Helper()
	e.waiters.mu.Lock()
	defer e.waiters.mu.Unlock()
	if e.waiters.all != all || len(e.waiters.byKey) != keys {
		t.Errorf("%d requests of %d keys wait, want %d of %d", e.waiters.all, len(e.waiters.byKey), all, keys)
	}
}
