package core

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// panickingObserver panics at the decision about a request that has waited.
type panickingObserver struct{}

func (panickingObserver) Observe(_ context.Context, e event.Event) {
	if e.Result == event.InProgress {
		panic(http.ErrAbortHandler)
	}
}

// Case 88: however a wait ends, its place is free again.
func TestWaitersReturnToZero(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(e *Engine, run *Run, cancel func()){
		"the run ends":           func(e *Engine, run *Run, _ func()) { e.settleUnused(run, nil) },
		"the client disconnects": func(_ *Engine, _ *Run, cancel func()) { cancel() },
		"Wait ends":              func(*Engine, *Run, func()) { time.Sleep(time.Minute) }, //nolint:forbidigo // the bubble's clock, not the machine's
		"the engine shuts down": func(e *Engine, _ *Run, cancel func()) {
			e.live.close()
			cancel()
		},
	} {
		for _, observer := range []event.Observer{event.Log(slog.New(slog.DiscardHandler)), panickingObserver{}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store := memstore.New()
					here, err := New(store, SharedScope, WithObserver(observer))
					if err != nil {
						t.Fatal(err)
					}
					elsewhere, err := New(store, SharedScope, WithObserver(observer))
					if err != nil {
						t.Fatal(err)
					}
					request := Request{Scope: "alice", Method: http.MethodPost, Path: "/payments", Key: "k", Fingerprint: "sha256:1"}
					run := here.Begin(t.Context(), nil, request).Run
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					for _, e := range []*Engine{here, elsewhere, elsewhere} {
						route := e.MustRoute(policy.Wait(time.Minute))
						go func() {
							defer func() { _ = recover() }() // of a guard that passes a panic on
							if late := e.Begin(ctx, route, request).Run; late != nil {
								e.settleUnused(late, nil)
							}
						}()
					}
					synctest.Wait()
					wantWaiters(t, here, 1, 1)
					wantWaiters(t, elsewhere, 2, 1)
					end(here, run, cancel)
					time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not the machine's
					cancel()
					synctest.Wait()
					wantWaiters(t, here, 0, 0)
					wantWaiters(t, elsewhere, 0, 0)
					here.live.abort()
					elsewhere.live.abort()
				})
			})
		}
	}
}

func wantWaiters(t *testing.T, e *Engine, all, keys int) {
	t.Helper()
	e.waiters.mu.Lock()
	defer e.waiters.mu.Unlock()
	if e.waiters.all != all || len(e.waiters.byKey) != keys {
		t.Errorf("%d requests of %d keys wait, want %d of %d", e.waiters.all, len(e.waiters.byKey), all, keys)
	}
}
