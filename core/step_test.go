package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
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

var errBroken = errors.New("broken")

// stepping is a handler with one step. Each attempt has its own function for the step,
// and its own response after the step.
type stepping struct {
	mu      sync.Mutex
	calls   int // of the step's functions
	attempt int
	charge  funcs   // by attempt; the last one stands for later attempts
	status  []int   // by attempt, as charge
	got     []any   // by attempt: the value that Step returned
	errs    []error // by attempt: the error that Step returned
}

func at[T any](all []T, i int) T { return all[min(i, len(all)-1)] }

func (s *stepping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := s.attempt
	s.attempt++
	got, err := core.Step(r.Context(), "charge", func(ctx context.Context) (any, error) {
		s.mu.Lock()
		s.calls++
		s.mu.Unlock()
		return at(s.charge, i)(ctx)
	})
	s.got, s.errs = append(s.got, got), append(s.errs, err)
	w.WriteHeader(at(s.status, i))
}

// wantCalls checks how often functions of the step were called.
func (s *stepping) wantCalls(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	testkit.Equal(t, s.calls, n, "calls of the step's function")
}

func returning(v any, err error) stepFunc {
	return func(context.Context) (any, error) { return v, err }
}

type (
	stepFunc = func(context.Context) (any, error)
	funcs    = []stepFunc
)

// Any later attempt gets the recorded result, and does not call the function. Both
// attempts see the value decoded from JSON.
func TestStepIsRecorded(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]policy.AbandonedMode{
		"Reexecute": policy.Reexecute, "Refuse": policy.Refuse, "Recover": policy.Recover(wantNoRecovery(t)),
	}, func(t *testing.T, mode policy.AbandonedMode) {
		h := &stepping{charge: funcs{returning(struct{ ID int }{7}, nil)}, status: []int{429, 429, 201}}
		store := memstore.New()
		for range 3 { // each attempt in a process of its own
			s := newService(t, store, h.ServeHTTP, policy.OnAbandoned(mode))
			s.post(t.Context(), "k", payment)
			s.wantRuns(t, 1)
			s.wantEvent(t, event.LeaseExpired, 0)
		}
		h.wantCalls(t, 1)
		for i, got := range h.got {
			if fmt.Sprintf("%#v", got) != `map[string]interface {}{"ID":7}` || h.errs[i] != nil {
				t.Errorf("attempt %d got %#v, %v", i+1, got, h.errs[i])
			}
		}
	})
}

func wantNoRecovery(t *testing.T) policy.RecoverFunc {
	t.Helper()
	return func(context.Context, policy.Abandoned) (*policy.Response, error) {
		t.Error("the RecoverFunc was called, and no attempt was abandoned")
		return nil, errBroken
	}
}

// A nil result is a result.
func TestStepWithoutAValueIsRecorded(t *testing.T) {
	t.Parallel()
	h := &stepping{charge: funcs{returning(nil, nil)}, status: []int{503, 201}}
	s := newService(t, memstore.New(), h.ServeHTTP)
	for range 2 {
		s.post(t.Context(), "k", payment)
	}
	h.wantCalls(t, 1)
	s.wantRuns(t, 2)
}

// An error is not recorded, unless it is permanent.
func TestErrorsOfSteps(t *testing.T) {
	t.Parallel()
	type row struct {
		err   error
		calls int
	}
	testkit.EachInBubble(t, map[string]row{
		"ordinary":  {errBroken, 2},
		"retryable": {failure.Retryable(errBroken), 2},
		"permanent": {failure.Permanent(errBroken), 1},
	}, func(t *testing.T, row row) {
		h := &stepping{charge: funcs{returning(1, row.err)}, status: []int{503, 201}}
		s := newService(t, memstore.New(), h.ServeHTTP)
		for range 2 {
			s.post(t.Context(), "k", payment)
		}
		h.wantCalls(t, row.calls)
		if !errors.Is(h.errs[0], row.err) || h.got[0] != nil {
			t.Errorf("the first attempt got %v, %v", h.got[0], h.errs[0])
		}
		if h.errs[1].Error() != "broken" || failure.IsPermanent(h.errs[1]) != failure.IsPermanent(row.err) || h.got[1] != nil {
			t.Errorf("the second attempt got %v, %v", h.got[1], h.errs[1])
		}
		s.wantEvent(t, event.Uncertain, 0)
	})
}

// uncertainSteps are steps that leave the outcome of the run unknown. None of their
// results is returned.
var uncertainSteps = map[string]func(store *faultyStore) stepFunc{
	"an uncertain error":            always(returning(1, failure.Uncertain(errBroken))),
	"uncertain, permanent":          always(returning(1, failure.Permanent(failure.Uncertain(errBroken)))),
	"a panic":                       always(func(context.Context) (any, error) { panic(errBroken) }),
	"Goexit":                        always(func(context.Context) (any, error) { runtime.Goexit(); return 1, nil }),
	"a result too large":            always(returning(strings.Repeat("x", 1<<10), nil)),
	"an error too large":            always(returning(nil, failure.Permanent(errors.New(strings.Repeat("x", 1<<10))))),
	"not encodable":                 always(returning(func() {}, nil)),
	"not decodable":                 always(returning(undecodable{}, nil)),
	"the store is unreachable":      func(s *faultyStore) stepFunc { return thenBreak(s, failUnapplied, 1, nil) },
	"the store is unreachable once": func(s *faultyStore) stepFunc { return thenBreak(s, failApplied, 1, nil) },
	"no error recorded":             func(s *faultyStore) stepFunc { return thenBreak(s, failUnapplied, nil, failure.Permanent(errBroken)) },
	"the context ends":              always(func(ctx context.Context) (any, error) { <-ctx.Done(); return 1, ctx.Err() }),
}

// always is a step that does nothing to the store.
func always(step stepFunc) func(*faultyStore) stepFunc {
	return func(*faultyStore) stepFunc { return step }
}

// thenBreak lets the store fail for two seconds, beginning with the step's result.
func thenBreak(s *faultyStore, fault func(func() error) error, v any, err error) stepFunc {
	return func(context.Context) (any, error) {
		s.set(&s.extend)(fault)
		time.AfterFunc(2*time.Second, func() { s.set(&s.extend)(nil) })
		return v, err
	}
}

// undecodable is encoded as an object, and decodes nothing but a number.
type undecodable struct{}

func (undecodable) MarshalJSON() ([]byte, error) { return []byte(`{"a":1e999}`), nil }

// An uncertain step makes the run uncertain: OnAbandoned decides, and Abandoned.Step
// names the step. Its result is never returned and then repeated.
func TestUncertainSteps(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, uncertainSteps, func(t *testing.T, charge func(store *faultyStore) stepFunc) {
		store := newFaultyStore()
		h := &stepping{charge: funcs{charge(store), returning(2, nil)}, status: []int{201}}
		opts := []policy.Option{policy.MaxResponseBytes(512), policy.MaxRun(10 * time.Second)}
		s := newService(t, store, h.ServeHTTP, append(opts, policy.OnAbandoned(policy.Refuse))...)
		postAside(t, s)
		if len(h.errs) > 0 && (h.errs[0] == nil || h.got[0] != nil) {
			t.Errorf("the step returned %v, %v", h.got[0], h.errs[0])
		}
		advance(5 * time.Second)
		s.wantEvent(t, event.Uncertain, 1)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		h.wantCalls(t, 1)

		cut := "nothing"
		recovers := newService(t, store, h.ServeHTTP, append(opts, policy.OnAbandoned(policy.Recover(
			func(_ context.Context, a policy.Abandoned) (*policy.Response, error) {
				cut = a.Step
				return nil, errBroken
			})))...)
		wantCode(t, recovers.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		testkit.Equal(t, cut, "charge", "the RecoverFunc got the step")
		again := newService(t, store, h.ServeHTTP, opts...)
		again.post(t.Context(), "k", payment)
		again.wantRuns(t, 1)
		// A result that reached the store in the end is the result of the step.
		if last := len(h.errs) - 1; h.got[last] == nil && !failure.IsPermanent(h.errs[last]) {
			t.Errorf("the next attempt got %v, %v", h.got[last], h.errs[last])
		}
	})
}

// postAside sends a request on a goroutine of its own, which a handler may end.
func postAside(t *testing.T, s *service) {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		defer func() { _ = recover() }()
		s.post(t.Context(), "k", payment)
	})
	group.Wait()
}

// A step that could not be begun has called nothing, and the run is no more uncertain
// than before.
func TestStepThatCannotBegin(t *testing.T) {
	t.Parallel()
	type row struct {
		fault func(func() error) error
		want  error
	}
	testkit.EachInBubble(t, map[string]row{
		"the store is unreachable": {failUnapplied, core.ErrUnavailable},
		"its reply is lost":        {failApplied, core.ErrUnavailable},
		"the lease is lost":        {failing(storage.ErrLeaseLost), core.ErrLeaseLost},
	}, func(t *testing.T, row row) {
		store := newFaultyStore()
		store.set(&store.extend)(row.fault)
		h := &stepping{charge: funcs{returning(1, nil)}, status: []int{429}}
		s := newService(t, store, h.ServeHTTP, policy.OnAbandoned(policy.Refuse))
		s.post(t.Context(), "k", payment)
		h.wantCalls(t, 0)
		if !errors.Is(h.errs[0], row.want) || errors.Is(h.errs[0], core.ErrUnavailable) != errors.Is(row.want, core.ErrUnavailable) || failure.IsUncertain(h.errs[0]) {
			t.Errorf("Step returned %v", h.errs[0])
		}
		s.wantEvent(t, event.Uncertain, 0)
		store.set(&store.extend)(nil)
		s.post(t.Context(), "k", payment)
		h.wantCalls(t, 1)
	})
}

// One lost call of the store is repeated, and the handler does not notice.
func TestStepSurvivesALostCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var calls atomic.Int64
		store.set(&store.extend)(func(apply func() error) error {
			if calls.Add(1)%2 == 1 {
				return errStoreDown
			}
			return apply()
		})
		h := &stepping{charge: funcs{returning(1, nil)}, status: []int{201}}
		newService(t, store, h.ServeHTTP).post(t.Context(), "k", payment)
		h.wantCalls(t, 1)
		if h.errs[0] != nil || h.got[0] != 1.0 {
			t.Errorf("Step returned %v, %v", h.got[0], h.errs[0])
		}
	})
}

// A run that has recorded no step releases its key for every payload, as a run without
// steps does.
func TestKeyWithoutRecordedStepsIsReleasedForAll(t *testing.T) {
	t.Parallel()
	h := &stepping{charge: funcs{returning(nil, errBroken), returning(1, nil)}, status: []int{429, 201}}
	s := newService(t, memstore.New(), h.ServeHTTP, policy.OnAbandoned(policy.Refuse))
	s.post(t.Context(), "k", payment)
	if w := s.post(t.Context(), "k", `{"amount":7}`); w.Code != http.StatusCreated {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A run that has recorded a step releases its key for its own payload only.
func TestKeyWithRecordedStepsIsReleasedForItsPayload(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]policy.AbandonedMode{"Reexecute": policy.Reexecute, "Refuse": policy.Refuse}, func(t *testing.T, mode policy.AbandonedMode) {
		h := &stepping{charge: funcs{returning(1, nil)}, status: []int{429}}
		s := newService(t, memstore.New(), h.ServeHTTP, policy.OnAbandoned(mode))
		for range 3 { // also an attempt that only got the recorded result
			s.post(t.Context(), "k", payment)
			wantCode(t, s.post(t.Context(), "k", `{"amount":7}`), http.StatusUnprocessableEntity, problem.KeyReused)
		}
		s.wantRuns(t, 3)
		s.wantEvent(t, event.Retryable, 3)
		s.wantEvent(t, event.LeaseExpired, 0)
		s.wantEvent(t, event.Uncertain, 0)
		h.wantCalls(t, 1)
	})
}

// A claim of a released key that its caller gave up is a later attempt, which the caller
// does not know. It blocks the key until its lease ends, and no step is lost.
func TestLateClaimOfAReleasedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		h := &stepping{charge: funcs{returning(1, nil)}, status: []int{429}}
		s := newService(t, store, h.ServeHTTP, policy.LockTTL(5*time.Second))
		s.post(t.Context(), "k", payment)
		store.set(&store.acquire)(failApplied)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
		store.set(&store.acquire)(nil)
		advance(2 * time.Second)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		advance(5 * time.Second)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 2)
		h.wantCalls(t, 1)
	})
}

// The last step that began and did not end is the one that was cut off.
func TestTheStepThatWasCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		first := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			_, _ = core.Step(r.Context(), "reserve", returning(nil, errBroken))
			_, _ = core.Step(r.Context(), "charge", returning(1, nil))
			_, _ = core.Step(r.Context(), "ship", returning(nil, failure.Uncertain(errBroken)))
			_, _ = core.Step(r.Context(), "mail", returning(nil, errBroken))
			store.set(&store.extend)(failUnapplied)
			_, _ = core.Step(r.Context(), "bill", returning(1, nil))
			store.set(&store.extend)(nil)
			w.WriteHeader(http.StatusCreated)
		})
		first.post(t.Context(), "k", payment)
		var cut []string
		s := newService(t, store, created, policy.OnAbandoned(policy.Recover(
			func(_ context.Context, a policy.Abandoned) (*policy.Response, error) {
				cut = append(cut, a.Step)
				return nil, errBroken
			})))
		s.post(t.Context(), "k", payment)
		s.post(t.Context(), "k", payment)
		testkit.Equal(t, fmt.Sprint(cut), "[ship ship]", "cut off: %v", cut)
	})
}

// An attempt that released its key has answered for the steps that were cut off before:
// its RecoverFunc had found no effect.
func TestTheStepThatWasCutOffAndCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var cut []string
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			switch lease, _ := core.LeaseFrom(r.Context()); lease.Attempt {
			case 1:
				_, _ = core.Step(r.Context(), "charge", returning(1, nil))
				_, _ = core.Step(r.Context(), "ship", returning(nil, failure.Uncertain(errBroken)))
			case 2:
				w.WriteHeader(http.StatusTooManyRequests)
			default:
				failure.MarkUncertain(r.Context())
			}
		}, lookingInto(func(_ context.Context, a policy.Abandoned) {
			cut = append(cut, fmt.Sprintf("%d: %q", a.Attempt, a.Step))
		}))
		for range 4 {
			s.post(t.Context(), "k", payment)
		}
		testkit.Equal(t, fmt.Sprint(cut), `[2: "ship" 4: ""]`, "cut off: %v", cut)
	})
}

// A key that is new again finds no steps. A key that was released is not remembered: a run
// that was released has no outcome.
func TestStepsEndWithTheirRun(t *testing.T) {
	t.Parallel()
	type row struct {
		status   int
		remember time.Duration
	}
	testkit.EachInBubble(t, map[string]row{
		"a response":                 {201, 0},
		"a release":                  {429, 0},
		"a release, with tombstones": {429, time.Hour},
	}, func(t *testing.T, row row) {
		h := &stepping{charge: funcs{returning(1, nil)}, status: []int{row.status, 201}}
		s := newService(t, memstore.New(), h.ServeHTTP, policy.TTL(time.Minute), policy.Remember(row.remember))
		s.post(t.Context(), "k", payment)
		advance(5 * time.Minute)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 2)
		h.wantCalls(t, 2)
	})
}

// A record whose steps cannot be read, such as a newer version's, never runs.
func TestUnreadableStepsNeverRun(t *testing.T) {
	t.Parallel()
	for _, steps := range []string{
		"nonsense", `{"step":"charge","gift":true}` + "\n", `{"step":"charge"}` + "\n{\n",
		`{"step":"charge"}{"step":"ship"}` + "\n", `{"step":"charge"} 7` + "\n", `{"step":"charge"}`, "{}\n", "null\n", "\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
				lease, _ := core.LeaseFrom(r.Context())
				lease.Steps = steps
				testkit.Must(t, store.Extend(r.Context(), lease, lease.LockTTL))
				failure.MarkUncertain(r.Context())
			})
			s.post(t.Context(), "k", payment)
			for range 2 {
				wantCode(t, s.post(t.Context(), "k", payment), http.StatusServiceUnavailable, problem.StoreUnavailable)
				synctest.Wait()
			}
			s.wantRuns(t, 1)
			s.wantEvent(t, event.StoreError, 2)
		})
	}
}

// An attempt that has lost its key during a step records nothing, and its result is not
// returned: the attempt that holds the key repeats the step.
func TestStepOfAnAttemptThatLostItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		frozen := newFaultyStore()
		frozen.Store = store
		h := &stepping{charge: funcs{func(context.Context) (any, error) { advance(time.Minute); return "old", nil }}, status: []int{201}}
		next := &stepping{charge: funcs{returning("new", nil)}, status: []int{201}}
		old := newService(t, frozen, h.ServeHTTP, policy.LockTTL(3*time.Second))
		var group sync.WaitGroup
		group.Go(func() { old.post(t.Context(), "k", payment) })
		synctest.Wait()
		frozen.set(&frozen.extend)(failUnapplied)
		advance(10 * time.Second)
		frozen.set(&frozen.extend)(nil)
		newService(t, store, next.ServeHTTP).post(t.Context(), "k", payment)
		group.Wait()
		if !errors.Is(h.errs[0], core.ErrLeaseLost) || h.got[0] != nil || next.got[0] != "new" {
			t.Errorf("the old attempt got %v, %v, the new one %v, %v", h.got[0], h.errs[0], next.got[0], next.errs[0])
		}
	})
}

// A step that outlives its lease is recorded while no other attempt holds the key.
func TestStepThatOutlivesItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		h := &stepping{charge: funcs{func(context.Context) (any, error) {
			store.set(&store.extend)(failUnapplied)
			advance(time.Minute)
			store.set(&store.extend)(nil)
			return 1, nil
		}}, status: []int{429}}
		s := newService(t, store, h.ServeHTTP, policy.LockTTL(3*time.Second))
		s.post(t.Context(), "k", payment)
		s.post(t.Context(), "k", payment)
		s.wantRuns(t, 2)
		h.wantCalls(t, 1)
		if h.got[0] != 1.0 || h.got[1] != 1.0 {
			t.Errorf("got %v, %v", h.got, h.errs)
		}
	})
}

// The text of the steps is a format that pods of other versions read.
func TestTextOfSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var texts []string
		s := newService(t, store, func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := core.LeaseFrom(r.Context())
			texts = append(texts, lease.Steps)
			_, _ = core.Step(r.Context(), "charge", returning(map[string]string{"id": "a\n<b>\x00\xff"}, nil))
			_, _ = core.Step(r.Context(), "decline", returning(nil, failure.Permanent(errBroken)))
			_, _ = core.Step(r.Context(), "ship", returning(nil, errBroken))
			failure.MarkUncertain(r.Context()) // a released key keeps the recorded lines alone
		})
		s.post(t.Context(), "k", payment)
		s.post(t.Context(), "k", payment)
		want := `{"step":"charge"}
{"step":"charge","result":{"id":"a\n\u003cb\u003e\u0000\ufffd"}}
{"step":"decline"}
{"step":"decline","error":"broken"}
{"step":"ship"}
{"step":"ship","failed":true}
`
		got := strings.ReplaceAll(texts[1], "\ufffd", `\ufffd`) // Go 1.27 writes the character
		if texts[0] != "" || got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
