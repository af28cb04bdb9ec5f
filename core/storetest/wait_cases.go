package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// waitCases are about two processes that share the store, each with an engine.
var waitCases = []testCase{
	{
		name: "a duplicate waits for another process",
		rule: "a duplicate that waits (policy.Wait) for a handler in another process gets that handler's response as a replay; " +
			"with FailOpen too, no handler runs twice",
		test: func(f *fixture) {
			for _, mode := range []policy.StoreErrorMode{policy.FailClosed, policy.FailOpen} {
				holder, waiter := f.process(f.store), &pollingStore{Store: f.store}
				options := []policy.Option{policy.Wait(f.long()), policy.LockTTL(f.long()), policy.OnStoreError(mode), f.storeTimeout()}
				request := core.Request{Method: "POST", Path: "/payments", Key: mode.String(), Fingerprint: fingerprint}
				first := holder.Begin(f.Context(), holder.MustRoute(options...), request)
				if first.Run == nil {
					f.Fatalf("the first request got %+v, want to run", first)
				}
				waiting := f.process(waiter)
				decided := make(chan core.Decision, 1)
				go func() { decided <- waiting.Begin(f.Context(), waiting.MustRoute(options...), request) }()
				f.until(func() bool { return waiter.polls.Load() >= 2 })
				if err := holder.Finish(first.Run, failure.Outcome{Status: 201}, core.Response{Status: 201, Body: []byte("paid")}); err != nil {
					f.Errorf("Finish: %v", err)
				}
				if second := <-decided; second.Record == nil || string(second.Record.Body) != "paid" {
					f.Errorf("with %s the duplicate got %+v, want the handler's response", mode, second)
				}
				f.shutDown(holder, waiting)
			}
		},
	},
	{
		name: "a duplicate waits for a process that dies",
		rule: "when the process that holds the lease dies, OnAbandoned decides for a waiting duplicate as soon as the lease has " +
			"ended: the duplicate runs, or is refused",
		test: func(f *fixture) {
			for _, refuses := range []bool{false, true} {
				mode := policy.Reexecute
				if refuses {
					mode = policy.Refuse
				}
				request := core.Request{Method: "POST", Path: "/payments", Key: mode.String(), Fingerprint: fingerprint}
				c := of(f.claim(), storage.Key(request.Scope, request.Method, request.Path, request.Key))
				c.LockTTL = 3 * f.unit
				f.win(c, 1, false) // and the claim's process has crashed
				waiter := f.process(f.store)
				route := waiter.MustRoute(policy.Wait(f.long()), policy.LockTTL(f.long()), policy.OnAbandoned(mode), f.storeTimeout())
				decision := waiter.Begin(f.Context(), route, request)
				switch {
				case refuses && (decision.Problem == nil || decision.Problem.Code != problem.OutcomeUnknown):
					f.Errorf("the duplicate got %+v, want %s", decision, problem.OutcomeUnknown)
				case !refuses && decision.Run == nil:
					f.Errorf("the duplicate got %+v, want to run", decision)
				case !refuses:
					if err := waiter.Finish(decision.Run, failure.Outcome{Status: 201}, core.Response{Status: 201}); err != nil {
						f.Errorf("Finish: %v", err)
					}
				}
				f.shutDown(waiter)
			}
		},
	},
}

// pollingStore counts the claims.
type pollingStore struct {
	storage.Store
	polls atomic.Int32
}

func (s *pollingStore) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	s.polls.Add(1)
	return s.Store.Acquire(ctx, c)
}

// process returns an engine over the store, like the engine of another process.
func (f *fixture) process(store storage.Store) *core.Engine {
	f.Helper()
	engine, err := core.New(store, core.SharedScope, core.WithObserver(unobserved{}))
	if err != nil {
		f.Fatalf("core.New: %v", err)
	}
	return engine
}

type unobserved struct{}

func (unobserved) Observe(context.Context, event.Event) {}

// storeTimeout is as long as the unit allows, because no case is about a slow store.
func (f *fixture) storeTimeout() policy.Option { return policy.StoreTimeout(f.long()) }

// until waits for a condition with a deadline.
func (f *fixture) until(condition func() bool) {
	f.Helper()
	for start := time.Now(); !condition(); f.wait(f.unit / 10) {
		if time.Since(start) > f.long() {
			f.Fatalf("the condition did not become true within %s", f.long())
		}
	}
}

func (f *fixture) shutDown(engines ...*core.Engine) {
	f.Helper()
	for _, engine := range engines {
		if err := engine.Shutdown(f.Context()); err != nil {
			f.Errorf("Shutdown: %v", err)
		}
	}
}
