package core

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

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
	for name, test := range map[string]struct {
		end    func(w waitersOf)
		after  time.Duration
		option policy.Option
	}{
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// crash abandons the run's key, as the end of its lease does.
func crash(w waitersOf) { w.run.hold.Abandon() }

// beginWaiters begins a run, and requests that wait for it. The option may be nil.
func beginWaiters(t *testing.T, option policy.Option) (w waitersOf) {
	t.Helper()
	store := memstore.New()
	engine := func() *Engine {
		e, err := New(store, SharedScope, WithObserver(event.Log(slog.New(slog.DiscardHandler))))
		if err != nil {
			t.Fatal(err)
		}
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
