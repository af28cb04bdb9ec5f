package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func one(context.Context) (int, error) { return 1, nil }

func wantNoCall(t *testing.T) func(context.Context) (int, error) {
	t.Helper()
	return func(context.Context) (int, error) {
		t.Error("the step's function was called")
		return 0, nil
	}
}

// inRun runs handle in a guarded handler with a response of 201.
func inRun(t *testing.T, handle func(context.Context), opts ...policy.Option) *service {
	t.Helper()
	s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		handle(r.Context())
		w.WriteHeader(http.StatusCreated)
	}, opts...)
	s.post(t.Context(), "k", payment)
	s.wantRuns(t, 1)
	return s
}

// A wrong call of Step is an error that says how to call it, and calls nothing.
func TestStepsThatAreRefused(t *testing.T) {
	t.Parallel()
	never := wantNoCall(t)
	step := func(ctx context.Context, name string, function func(context.Context) (int, error)) error {
		_, err := core.Step(ctx, name, function)
		return err
	}
	type row struct {
		call func(ctx context.Context) error
		want string
	}
	testkit.EachInBubble(t, map[string]row{
		"without a guard":   {func(context.Context) error { return step(t.Context(), "charge", never) }, `step "charge" has no guarded run`},
		"without a context": {func(context.Context) error { return step(nil, "charge", never) }, `step "charge" is given a nil context`},
		"without a function": {
			func(ctx context.Context) error { return step(ctx, "charge", nil) }, `step "charge" is given a nil function`,
		},
		"without a name":  {func(ctx context.Context) error { return step(ctx, "", never) }, "a step has no name"},
		"a name too long": {func(ctx context.Context) error { return step(ctx, strings.Repeat("x", 101), never) }, "has 101 bytes: give at most 100"},
		"a name of bytes": {func(ctx context.Context) error { return step(ctx, "\xff", never) }, "give at most 100 bytes of UTF-8"},
		"a name used twice": {
			func(ctx context.Context) error {
				return errors.Join(step(ctx, "charge", one), step(ctx, "charge", never))
			},
			`step "charge" was not called: a step of this name was called before in this run`,
		},
		"inside a step": {func(ctx context.Context) error {
			return step(ctx, "charge", func(ctx context.Context) (int, error) { return 1, step(ctx, "ship", never) })
		}, `step "ship" is inside another step`},
		"a context that has ended": {func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errBroken)
			err := step(ctx, "charge", never)
			if !errors.Is(err, errBroken) {
				t.Errorf("got %v, want the cause", err)
			}
			return err
		}, `step "charge" was not called: broken`},
		"a name that leaves no room": {func(ctx context.Context) error {
			_, first := core.Step(ctx, "charge", func(context.Context) (string, error) { return strings.Repeat("x", 100), nil })
			return errors.Join(first, step(ctx, strings.Repeat("x", 100), never))
		}, "exceed the policy's MaxResponseBytes: 200 bytes"},
	}, func(t *testing.T, row row) {
		s := inRun(t, func(ctx context.Context) {
			if err := row.call(ctx); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %s", err, row.want)
			}
		}, policy.MaxResponseBytes(200), policy.OnAbandoned(policy.Refuse))
		s.wantEvent(t, event.Completed, 1)
	})
}

// The run has ended, or its response is settled, or its lease is lost: Step calls
// nothing.
func TestStepsAfterTheRun(t *testing.T) {
	t.Parallel()
	t.Run("the handler has returned", func(t *testing.T) {
		t.Parallel()
		var after context.Context
		inRun(t, func(ctx context.Context) { after = ctx }) //nolint:fatcontext // a goroutine that the handler left behind
		for _, ctx := range []context.Context{after, context.WithoutCancel(after)} {
			if _, err := core.Step(ctx, "charge", wantNoCall(t)); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
	})
	t.Run("the response streams", func(t *testing.T) {
		t.Parallel()
		store := memstore.New()
		recorded := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			_, _ = core.Step(r.Context(), "charge", one)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		recorded.post(t.Context(), "k", payment)
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			for _, name := range []string{"charge", "ship"} {
				if _, err := core.Step(r.Context(), name, wantNoCall(t)); err == nil || !strings.Contains(err.Error(), "is settled") {
					t.Errorf("step %s got %v", name, err)
				}
			}
		})
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 1)
	})
	t.Run("the lease has ended", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			store.set(&store.extend)(failUnapplied)
			s := newService(t, store, func(_ http.ResponseWriter, r *http.Request) {
				advance(time.Minute)
				if _, err := core.Step(r.Context(), "charge", wantNoCall(t)); !errors.Is(err, core.ErrLeaseLost) {
					t.Errorf("got %v", err)
				}
			})
			s.post(t.Context(), "k", payment)
			s.wantRuns(t, 1)
		})
	})
	t.Run("MaxRun", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			inRun(t, func(ctx context.Context) {
				advance(2 * time.Second)
				if _, err := core.Step(ctx, "charge", wantNoCall(t)); !errors.Is(err, core.ErrRunTooLong) {
					t.Errorf("got %v", err)
				}
			}, policy.MaxRun(time.Second))
		})
	})
}

// The caller's context ends while the step begins: its function is not called, and the
// outcome of the run is no more uncertain than before.
func TestContextEndsWhileAStepBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(&store.extend)(func(apply func() error) error { advance(300 * time.Millisecond); return apply() })
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := core.Step(ctx, "charge", wantNoCall(t)); !errors.Is(err, context.DeadlineExceeded) || failure.IsUncertain(err) {
				t.Errorf("got %v", err)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}, policy.OnAbandoned(policy.Refuse))
		s.post(t.Context(), "k", payment)
		s.wantEvent(t, event.Retryable, 1)
	})
}

// The machine is suspended inside a step for longer than the lease. The step sees that
// at once, as its handler does.
func TestSuspensionInAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &suspendedStore{Store: memstore.New()}
		s := newService(t, store, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = core.Step(r.Context(), "charge", func(ctx context.Context) (int, error) {
				if ctx.Err() != nil {
					t.Error("the context has ended early")
				}
				store.suspend(time.Minute)
				if ctx.Err() == nil {
					t.Error("the context has not ended")
				}
				return 1, nil
			})
		})
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 1)
	})
}

// A router's adapter refuses a wrong setup, and an observing route passes it.
func TestStepOfAnObservedWrongSetup(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	called := false
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := core.Step(r.Context(), "charge", one)
		called = err == nil
	})
	s.Refuse(httptest.NewRecorder(), newPost(t.Context(), "k", payment), s.MustRoute(policy.ObserveOnly(true)), errBroken, next)
	if !called {
		t.Error("the step was refused")
	}
}

// A RecoverFunc cannot call steps: it decides about the attempt before.
func TestStepInARecoverFunc(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := abandonedStore(t)
		s := newService(t, store, created, lookingInto(func(ctx context.Context, _ policy.Abandoned) {
			if _, err := core.Step(ctx, "charge", wantNoCall(t)); err == nil || !strings.Contains(err.Error(), "inside a RecoverFunc") {
				t.Errorf("got %v", err)
			}
		}))
		wantFirst(t, s.post(t.Context(), "k", payment))
	})
}

// passer is a request that the guard lets through.
type passer struct {
	key   string
	fault func(func() error) error
	opts  []policy.Option
}

var passing = map[string]passer{
	"observe-only":            {"k", nil, []policy.Option{policy.ObserveOnly(true)}},
	"no key":                  {"", nil, []policy.Option{policy.Required(false)}},
	"FailOpen":                {"k", failUnapplied, []policy.Option{policy.OnStoreError(policy.FailOpen)}},
	"SkipIf":                  {"k", nil, []policy.Option{policy.SkipIf(func(*http.Request) bool { return true })}},
	"observe-only, wrong key": {"a b", nil, []policy.Option{policy.ObserveOnly(true)}},
}

// Requests that the guard lets through call the function without recording.
func TestStepsOfRequestsThatPass(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, passing, func(t *testing.T, row passer) {
		store := newFaultyStore()
		store.set(&store.acquire)(row.fault)
		calls := 0
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			got, err := core.Step(r.Context(), "charge", func(ctx context.Context) (int, error) {
				calls++
				_, nested := core.Step(ctx, "ship", wantNoCall(t))
				if nested == nil || !strings.Contains(nested.Error(), "inside another step") {
					t.Errorf("a step in a step got %v", nested)
				}
				return calls, nil
			})
			if got != calls || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
			_, err = core.Step(r.Context(), "", wantNoCall(t))
			if err == nil {
				t.Error("a step without a name was called")
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}, row.opts...)
		for range 2 {
			r := newPost(t.Context(), row.key, payment)
			if row.key == "" {
				r.Header.Del(core.KeyHeader)
			}
			testkit.Serve(s.handler, r)
		}
		if calls != 2 || store.extends.Load() != 0 {
			t.Errorf("%d calls of the function, %d of the store", calls, store.extends.Load())
		}
	})
}

// The same for calls of Do.
func TestStepsOfCallsThatPass(t *testing.T) {
	t.Parallel()
	for name, row := range passing {
		if name == "SkipIf" || row.key == "a b" { // not for calls
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			store.set(&store.acquire)(row.fault)
			engine := engineOf(t, store)
			call := core.Call{Scope: "s", Name: "order", Key: row.key, Route: engine.MustRoute(row.opts...)}
			calls := 0
			for range 2 {
				_, _, err := core.Do(t.Context(), engine, call, func(ctx context.Context) (int, error) {
					_, err := core.Step(ctx, "charge", func(context.Context) (int, error) { calls++; return calls, nil })
					return 0, errors.Join(err, errBroken)
				})
				if !errors.Is(err, errBroken) {
					t.Errorf("%s: got %v", name, err)
				}
			}
			if calls != 2 || store.extends.Load() != 0 {
				t.Errorf("%s: %d calls of the function, %d of the store", name, calls, store.extends.Load())
			}
			shutdown(t, engine)
		})
	}
}

// DeriveKey and KeyFrom work in a step, as do the marks and the caller's values. The
// context ends when Step returns.
func TestContextOfAStep(t *testing.T) {
	t.Parallel()
	type key struct{}
	s := inRun(t, func(ctx context.Context) {
		ctx = context.WithValue(ctx, key{}, "v")
		derived := core.DeriveKey(ctx, "charge")
		var inside context.Context
		_, err := core.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			inside = ctx //nolint:fatcontext // a goroutine that the function left behind
			if core.DeriveKey(ctx, "charge") != derived || derived == "" ||
				core.KeyFrom(ctx) != "k" || ctx.Value(key{}) != "v" || !failure.MarkExecuted(ctx) || ctx.Err() != nil {
				t.Error("a value is missing")
			}
			lease, ok := core.LeaseFrom(ctx)
			if !ok || lease.Attempt != 1 {
				t.Errorf("the lease is %+v", lease)
			}
			return 1, nil
		})
		if err != nil || inside.Err() == nil || ctx.Err() != nil {
			t.Errorf("Step returned %v, its context %v, the handler's %v", err, inside.Err(), ctx.Err())
		}
	})
	s.wantEvent(t, event.Completed, 1)
}

// The context of a step ends with the caller's context and with the run, whatever the
// caller derived.
func TestContextOfAStepEnds(t *testing.T) {
	t.Parallel()
	type row struct {
		derive func(context.Context) (context.Context, context.CancelFunc)
		after  time.Duration
		cause  error
	}
	testkit.EachInBubble(t, map[string]row{
		"with the run": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithoutCancel(ctx), func() {}
		}, 10 * time.Second, core.ErrRunTooLong},
		"with the caller's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, time.Second, context.DeadlineExceeded},
	}, func(t *testing.T, row row) {
		s := inRun(t, func(ctx context.Context) {
			ctx, cancel := row.derive(ctx)
			defer cancel()
			begun := time.Now()
			_, err := core.Step(ctx, "charge", func(ctx context.Context) (int, error) {
				inner, cancel := context.WithCancel(ctx)
				defer cancel()
				<-inner.Done()
				return 0, context.Cause(ctx)
			})
			if !errors.Is(err, row.cause) || time.Since(begun) != row.after {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
		}, policy.MaxRun(10*time.Second))
		s.wantEvent(t, event.Uncertain, 1) // the step was cut off
	})
}

// The context of a step carries no transaction, not even an outer run's, and a recorded
// step stays when the transaction rolls back.
func TestStepOfATransactionalHandler(t *testing.T) {
	t.Parallel()
	b := newBank()
	calls, runs := 0, 0
	var engine *core.Engine
	charge := func(ctx context.Context) (int, error) { //nolint:unparam // as Step wants it
		if calls++; bankOf(ctx) != nil {
			t.Error("a step finds the transaction")
		}
		return calls, nil
	}
	s := newBankService(t, b, func(w http.ResponseWriter, r *http.Request) {
		bankOf(r.Context()).delta += 100
		_, err := core.Step(r.Context(), "charge", charge)
		_, _, innerErr := core.Do(r.Context(), engine, core.Call{Scope: "s", Name: "inner", Key: "k"},
			func(ctx context.Context) (int, error) { return core.Step(ctx, "charge", charge) })
		if err != nil || innerErr != nil {
			t.Errorf("the steps return %v and %v", err, innerErr)
		}
		if runs++; runs == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		created(w, r)
	})
	engine = s.Engine
	s.post(t.Context(), "k", payment)
	b.wantBalance(t, 0)
	wantFirst(t, s.post(t.Context(), "k", payment))
	b.wantBalance(t, 100)
	if calls != 2 || runs != 2 {
		t.Errorf("%d calls of steps in %d runs, want one of each step", calls, runs)
	}
}

// Steps of running handlers are admitted during Shutdown.
func TestStepDuringShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			<-closing
			if got, err := core.Step(r.Context(), "charge", one); got != 1 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
			created(w, r)
		})
		var group sync.WaitGroup
		group.Go(func() { wantFirst(t, s.post(t.Context(), "k", payment)) })
		synctest.Wait()
		group.Go(func() {
			shutdown(t, s)
		})
		synctest.Wait()
		wantCode(t, s.post(t.Context(), "another", payment), http.StatusServiceUnavailable, problem.ShuttingDown)
		close(closing)
		group.Wait()
	})
}

// Steps are no requests: they report no events.
func TestStepsReportNoEvents(t *testing.T) {
	t.Parallel()
	without := inRun(t, func(context.Context) {})
	with := inRun(t, func(ctx context.Context) {
		_, _ = core.Step(ctx, "charge", one)
		_, _ = core.Step(ctx, "ship", func(context.Context) (int, error) { return 0, errBroken })
	})
	testkit.Equal(t, fmt.Sprint(without.events.results()), fmt.Sprint(with.events.results()), "the events without steps")
}

// A call inside a handler, or inside a step, is a run of its own, and has its own steps.
func TestStepsOfAnInnerRun(t *testing.T) {
	t.Parallel()
	var engine *core.Engine
	calls := 0
	count := func(context.Context) (int, error) { //nolint:unparam // as Step wants it
		calls++
		return calls, nil
	}
	inner := func(ctx context.Context, name string) (int, error) {
		got, _, err := core.Do(ctx, engine, core.Call{Scope: "s", Name: name, Key: "k"},
			func(ctx context.Context) (int, error) { return core.Step(ctx, "charge", count) })
		return got, err
	}
	s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		outer, err := core.Step(r.Context(), "charge", count)
		second, innerErr := inner(r.Context(), "inner")
		third, stepErr := core.Step(r.Context(), "a run", func(ctx context.Context) (int, error) { return inner(ctx, "in a step") })
		if outer != 1 || second != 2 || third != 3 || err != nil || innerErr != nil || stepErr != nil {
			t.Errorf("got %d, %v and %d, %v and %d, %v", outer, err, second, innerErr, third, stepErr)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	engine = s.Engine
	for range 2 {
		s.post(t.Context(), "k", payment)
	}
	s.wantRuns(t, 2)
}

// oneExtend fails the test when two Extends of a run overlap, or one comes after the
// settlement.
type oneExtend struct {
	*faultyStore
	t        *testing.T
	extends  atomic.Int64
	settled  atomic.Bool
	longest  atomic.Int64
	duration time.Duration
}

func (s *oneExtend) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if s.extends.Add(1) > 1 || s.settled.Load() {
		s.t.Error("an Extend overlaps another, or comes after the settlement")
	}
	defer s.extends.Add(-1)
	if n := int64(len(l.Steps)); n < s.longest.Swap(n) {
		s.t.Error("the steps have become shorter")
	}
	advance(s.duration)
	return s.faultyStore.Extend(ctx, l, ttl)
}

func (s *oneExtend) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	s.settled.Store(true)
	return s.faultyStore.Complete(ctx, l, r)
}

// Two goroutines of a handler call steps while the lease is renewed: their functions run
// concurrently, the calls of the store one after another, and the lease is kept.
func TestConcurrentSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &oneExtend{faultyStore: newFaultyStore(), t: t, duration: 300 * time.Millisecond}
		var running atomic.Int64
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			var group sync.WaitGroup
			for i := range 5 {
				group.Go(func() {
					got, err := core.Step(r.Context(), fmt.Sprint("item ", i), func(context.Context) (int, error) {
						running.Add(1)
						defer running.Add(-1)
						advance(10 * time.Second)
						return i, nil
					})
					if got != i || err != nil {
						t.Errorf("got %d, %v", got, err)
					}
				})
			}
			advance(5 * time.Second) // all have begun, and none has ended
			testkit.Equal(t, running.Load(), 5, "functions that run at a time")
			group.Wait()
			advance(time.Minute) // the renewals go on
			if err := r.Context().Err(); err != nil {
				t.Error(err)
			}
			created(w, r)
		}, policy.LockTTL(3*time.Second), policy.StoreTimeout(time.Second))
		wantFirst(t, s.post(t.Context(), "k", payment))
		s.wantEvent(t, event.StoreError, 0)
	})
}

// A handler that returns while a function of its step still runs leaves the outcome
// unknown, although it asks for a retry.
func TestHandlerReturnsDuringAStep(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusCreated, http.StatusUnprocessableEntity, http.StatusTooManyRequests} {
		synctest.Test(t, func(t *testing.T) {
			finish := make(chan struct{})
			var group sync.WaitGroup
			s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				group.Go(func() {
					_, err := core.Step(context.WithoutCancel(r.Context()), "charge", func(context.Context) (int, error) { <-finish; return 1, nil })
					if !failure.IsUncertain(err) || !strings.Contains(err.Error(), "is settled") {
						t.Errorf("got %v", err)
					}
				})
				synctest.Wait()
				w.WriteHeader(status)
			}, policy.OnAbandoned(policy.Refuse))
			testkit.Equal(t, s.post(t.Context(), "k", payment).Code, status, "the handler's status")
			s.wantEvent(t, event.Uncertain, 1)
			testkit.Equal(t, s.events.last().Reason, "the handler returned during a step", "the reason")
			close(finish)
			group.Wait()
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		})
	}
}

// Each step is a renewal of the lease, and no plain renewal is made beside it.
func TestStepRenewsTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			for i := range 20 {
				advance(900 * time.Millisecond)
				if _, err := core.Step(r.Context(), fmt.Sprint(i), one); err != nil {
					t.Error(err)
				}
			}
			created(w, r)
		}, policy.LockTTL(3*time.Second))
		wantFirst(t, s.post(t.Context(), "k", payment))
		wantCalls(t, &store.extends, 40)
	})
}
