package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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

// soon are options with short times.
var soon = core.ReconcileOptions{After: time.Minute, Every: time.Second, Backoff: 10 * time.Second, MaxBackoff: 15 * time.Second, MaxAttempts: 5}

// reconcile runs Reconcile until the test ends or stop is called.
func (s *service) reconcile(t *testing.T, find core.FindFunc, options core.ReconcileOptions) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Reconcile(ctx, find, options) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Reconcile returned %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func finding(found core.Finding) core.FindFunc {
	return func(context.Context, core.Lost) (core.Finding, error) { return found, nil }
}

// list returns the records of a store.
func list(t *testing.T, store storage.Inspector) []storage.Entry {
	t.Helper()
	listing, err := store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 100})
	testkit.Must(t, err)
	return listing.Entries
}

// Each answer settles the key, for every policy, and no handler runs for it. A client that
// comes back gets a response by that answer.
func TestReconcile(t *testing.T) {
	t.Parallel()
	shown := func(text string) func(*testing.T, *service) {
		return func(t *testing.T, s *service) {
			for _, e := range s.events.seen() {
				if e.Result == event.RecoverError && !strings.Contains(e.ErrorText(), text) {
					t.Errorf("the error is shown as %q, want %q in it", e.ErrorText(), text)
				}
			}
		}
	}
	paid := policy.Response{Status: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"payment_id":"p1"}`)}
	for name, row := range map[string]struct {
		find   core.FindFunc
		event  event.Result
		reason string
		check  func(t *testing.T, s *service)
	}{
		"this response": {finding(core.Responded(paid)), event.Reconciled, "response", func(t *testing.T, s *service) {
			wantReplay(t, s.post(t.Context(), "k", payment))
			wantCode(t, s.post(t.Context(), "k", `{}`), http.StatusUnprocessableEntity, problem.KeyReused)
			s.wantRuns(t, 1)
		}},
		"it happened": {finding(core.Happened), event.Reconciled, "happened", func(t *testing.T, s *service) {
			wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
			s.wantRuns(t, 1)
		}},
		"it did not happen": {finding(core.DidNotHappen), event.Reconciled, "did not happen", func(t *testing.T, s *service) {
			s.post(t.Context(), "k", payment)
			s.wantRuns(t, 2)
		}},
		"an error":                    {func(context.Context, core.Lost) (core.Finding, error) { return core.Happened, errors.New("no reply") }, event.RecoverError, "", shown("*errors.errorString")},
		"a panic":                     {func(context.Context, core.Lost) (core.Finding, error) { panic("broken") }, event.RecoverError, "", shown("the FindFunc panicked at ")},
		"a response without a status": {finding(core.Responded(policy.Response{})), event.RecoverError, "", shown("no status from 200")},
	} {
		for _, mode := range []policy.AbandonedMode{policy.Reexecute, policy.Refuse} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newService(t, memstore.New(), uncertain, policy.OnAbandoned(mode))
					s.post(t.Context(), "k", payment)
					stop := s.reconcile(t, row.find, soon)
					advance(58 * time.Second)
					s.wantEvent(t, row.event, 0)
					advance(5 * time.Second)
					s.wantEvent(t, row.event, 1)
					stop()
					for _, e := range s.events.seen() {
						if status := map[string]int{"response": paid.Status}[e.Reason]; e.Result == row.event && (e.Reason != row.reason || e.Record == "" || e.Attempt != 2 || e.Status != status) {
							t.Errorf("the event is %+v", e)
						}
					}
					s.wantEvent(t, event.LeaseExpired, 0)
					s.wantRuns(t, 1)
					row.check(t, s)
				})
			})
		}
	}
}

// A FindFunc sees the route, the holder, the step that was cut off, and the key that the
// handler gave to another service.
func TestReconcileSeesTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		derived, store := "", memstore.New()
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			_, _ = core.Step(r.Context(), "reserve", func(context.Context) (int, error) { return 1, nil })
			_, err := core.Step(r.Context(), "charge", func(ctx context.Context) (int, error) {
				derived = core.DeriveKey(ctx, "psp")
				return 0, failure.Uncertain(errors.New("no reply"))
			})
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		s.post(t.Context(), "k", payment)
		key := list(t, store)[0].Key
		asked := make(chan core.Lost, 1)
		s.reconcile(t, func(ctx context.Context, lost core.Lost) (core.Finding, error) {
			if _, err := core.Step(ctx, "find", func(context.Context) (int, error) { return 1, nil }); err == nil {
				t.Error("a FindFunc has a step")
			}
			asked <- lost
			return core.Happened, nil
		}, soon)
		lost := <-asked
		if lost.Record != key || lost.Step != "charge" || lost.Attempt != 1 || lost.Created.IsZero() || lost.Holder == "" || lost.DerivedKey("psp") != derived || derived == "" {
			t.Errorf("asked about %+v, and the handler gave the key %s", lost, derived)
		}
	})
}

// DidNotHappen keeps the recorded steps, and the step that was cut off runs again.
func TestReconcileKeepsSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		fails := true
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			for _, step := range []string{"reserve", "charge"} {
				if _, err := core.Step(r.Context(), step, func(context.Context) (int, error) {
					calls = append(calls, step)
					if step == "charge" && fails {
						return 0, failure.Uncertain(errors.New("no reply"))
					}
					return 1, nil
				}); err != nil {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
			}
			created(w, r)
		}, policy.OnAbandoned(policy.Refuse))
		s.post(t.Context(), "k", payment)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		stop := s.reconcile(t, finding(core.DidNotHappen), soon)
		advance(2 * time.Minute)
		stop()
		fails = false
		wantFirst(t, s.post(t.Context(), "k", payment))
		testkit.EqualSlices(t, calls, []string{"reserve", "charge", "charge"}, "the steps were called")
	})
}

// The questions about one key come at growing distances, up to a limit, and end with an event.
// The key then is an operator's to settle.
func TestReconcileBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newService(t, store, uncertain, policy.OnAbandoned(policy.Refuse))
		s.post(t.Context(), "k", payment)
		var asked []time.Duration
		began := time.Now()
		s.reconcile(t, func(context.Context, core.Lost) (core.Finding, error) {
			asked = append(asked, time.Since(began))
			began = time.Now()
			return core.AskAgain, nil
		}, soon)
		advance(time.Hour)
		least := []time.Duration{time.Minute, 10 * time.Second, 15 * time.Second, 15 * time.Second}
		if len(asked) != len(least) {
			t.Fatalf("asked after %v, want about %v", asked, least)
		}
		for i, wait := range asked {
			if wait < least[i] || wait > least[i]+3*time.Second {
				t.Errorf("question %d came after %v, want %v", i+1, wait, least[i])
			}
		}
		s.wantEvent(t, event.ReconcileGaveUp, 1)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		inspector := inspectorOf(t, s)
		left := list(t, store)[0]
		testkit.Must(t, inspector.Settle(t.Context(), left.Key, left.Attempt, storage.DidNotHappen, core.ByHand{Operator: "ann", Reason: "looked"}))
	})
}

// Several processes share the work: each key is asked about once at a time, and once where the
// answer is final.
func TestReconcileInSeveralProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys, processes = 40, 3
		store := memstore.New()
		var now, most, total atomic.Int64
		find := func(context.Context, core.Lost) (core.Finding, error) {
			total.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			advance(time.Second)
			now.Add(-1)
			return core.Happened, nil
		}
		first := newService(t, store, uncertain)
		for i := range keys {
			first.post(t.Context(), string(rune('A'+i)), payment)
		}
		for range processes {
			newService(t, store, uncertain).reconcile(t, find, core.ReconcileOptions{After: time.Minute, Every: time.Second, Concurrency: 2})
		}
		advance(10 * time.Minute)
		if total.Load() != keys || most.Load() > 2*processes || most.Load() < processes {
			t.Errorf("%d questions about %d keys, %d at a time", total.Load(), keys, most.Load())
		}
		for _, entry := range list(t, store) {
			if entry.State != storage.Unreplayable || entry.Status != storage.StatusByHand || entry.Attempt != 2 {
				t.Errorf("a record is %+v", entry.Record)
			}
		}
	})
}

// Services that share a store ask about their own keys alone: another one's provider knows of no
// operation of theirs.
func TestReconcileLeavesOtherServicesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		services := []*service{
			newService(t, store, uncertain),
			newServiceOf(t, store, uncertain, nil, core.WithService("shop")),
			newServiceOf(t, store, uncertain, nil, core.WithService("mail")),
		}
		for _, s := range services {
			s.post(t.Context(), "k", payment)
		}
		for i, s := range services {
			var asked []string
			stop := s.reconcile(t, func(_ context.Context, lost core.Lost) (core.Finding, error) {
				asked = append(asked, lost.Record)
				return core.Happened, nil
			}, soon)
			advance(2 * time.Minute)
			stop()
			if own := s.StorageKey("alice", http.MethodPost, "/payments", "k"); len(asked) != 1 || asked[0] != own {
				t.Errorf("service %d is asked about %v, want its own %s", i, asked, own)
			}
		}
	})
}

// While a key is asked about, a retry gets 409 in_progress, and an old holder that comes back
// has lost its lease.
func TestReconcileHoldsTheKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		inner := store.Store.(*memstore.Store)
		goOn, back := make(chan struct{}), make(chan *httptest.ResponseRecorder)
		lost := newService(t, store, createdOnce(goOn))
		go func() { back <- lost.post(t.Context(), "k", payment) }()
		synctest.Wait()
		store.set(&store.extend)(failUnapplied) // cut off from the store
		asked, answer := make(chan struct{}), make(chan struct{})
		other := newService(t, inner, created)
		other.reconcile(t, func(context.Context, core.Lost) (core.Finding, error) {
			close(asked)
			<-answer
			return core.Happened, nil
		}, soon)
		<-asked
		store.set(&store.extend)(nil)
		wantCode(t, other.post(t.Context(), "k", payment), http.StatusConflict, problem.InProgress)
		close(goOn)
		if got := <-back; got.Code == http.StatusCreated {
			t.Errorf("the old holder showed its response: %d %s", got.Code, got.Body)
		}
		close(answer)
		advance(time.Second)
		wantCode(t, other.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
		other.wantRuns(t, 0)
	})
}

// A running handler is never asked about, however long it runs.
func TestReconcileLeavesRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), createdAfter(10*time.Minute))
		s.reconcile(t, finding(core.DidNotHappen), soon)
		wantFirst(t, s.post(t.Context(), "k", payment))
		s.wantEvent(t, event.Reconciled, 0)
	})
}

// Reconcile ends with its context, in the middle of a question, and with its engine.
func TestReconcileEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newService(t, store, uncertain)
		s.post(t.Context(), "k", payment)
		asked := make(chan struct{}, 1)
		waits := func(ctx context.Context, _ core.Lost) (core.Finding, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return core.Happened, ctx.Err()
		}
		patient := soon
		patient.FindTimeout = time.Hour
		stop := s.reconcile(t, waits, patient)
		<-asked
		began := time.Now()
		if stop(); time.Since(began) > 0 {
			t.Errorf("the question ended after %v", time.Since(began))
		}
		if left := list(t, store)[0]; !left.Abandoned() || left.Attempt != 2 {
			t.Errorf("the record is %+v, want an abandoned one", left.Record)
		}
		other := newService(t, store, uncertain)
		ended := make(chan error)
		go func() { ended <- other.Reconcile(t.Context(), finding(core.Happened), soon) }()
		shutdown(t, other)
		if err := <-ended; err != nil {
			t.Errorf("Reconcile of an engine that has shut down returned %v", err)
		}
	})
}

// A response is kept as the route says, and for the longest time of all routes where this
// process does not know the route.
func TestReconcileRetention(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]bool{"a known route": true, "an unknown route": false}, func(t *testing.T, known bool) {
		store := memstore.New()
		s := newService(t, store, uncertain, policy.TTLHours(48))
		s.post(t.Context(), "k", payment)
		keeper, want := s, 48*time.Hour
		if !known {
			keeper, want = newService(t, store, uncertain, policy.TTLHours(72)), 72*time.Hour
		}
		keeper.reconcile(t, finding(core.Happened), soon)
		advance(2 * time.Minute)
		if left := list(t, store)[0]; left.Expires.Sub(left.Finished) != want {
			t.Errorf("the record is kept for %v, want %v", left.Expires.Sub(left.Finished), want)
		}
	})
}

// The patterns of chi and gin have no method. Where several routes have the pattern of a record, or
// none is known to have it, the response is kept without the fields of any, for the longest time.
func TestReconcileWithoutACertainRoute(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]bool{"two routes": true, "no route": false}, func(t *testing.T, known bool) {
		store := memstore.New()
		s, keeper := newService(t, store, nil), newService(t, store, nil)
		s.MustRoute(policy.Methods("PATCH")).Declare(core.Endpoint{Method: "PATCH", Pattern: "/cards"})
		create := s.MustRoute(policy.RedactFields("secret"), policy.TTLHours(48))
		keeper.MustRoute(policy.RedactFields("secret"), policy.TTLHours(48))
		if known {
			keeper = s
		}
		run := s.Begin(t.Context(), create, core.Request{Scope: "alice", Method: "POST", Path: "/cards", Key: "k", Fingerprint: "f", Pattern: "/cards"}).Run
		failure.MarkUncertain(run.Context())
		testkit.Must(t, s.Finish(run, failure.Outcome{}, core.Response{}))
		keeper.reconcile(t, finding(core.Responded(policy.Response{Status: 201, Body: []byte(`{"id":1,"secret":2}`)})), soon)
		advance(2 * time.Minute)
		record, err := store.Lookup(t.Context(), run.Lease().Key)
		if err != nil || string(record.Body) != `{"id":1}` || record.Expires.Sub(record.Finished) != 48*time.Hour {
			t.Errorf("the record is %+v, %v", record, err)
		}
	})
}

// A key that stays abandoned is remembered as its route says.
func TestReconcileRemembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), uncertain, policy.OnAbandoned(policy.Refuse), policy.TTLHours(2), policy.RememberHours(24))
		s.post(t.Context(), "k", payment)
		stop := s.reconcile(t, finding(core.AskAgain), soon)
		advance(time.Hour)
		stop()
		advance(4 * time.Hour)
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusConflict, problem.OutcomeUnknown)
		s.wantRuns(t, 1)
	})
}

// outdated is a store whose lists, or whose lists and single records, are of an earlier time.
type outdated struct {
	*memstore.Store
	listing storage.Listing
	records bool
}

func (o *outdated) List(context.Context, storage.Filter, storage.Page) (storage.Listing, error) {
	return o.listing, nil
}

func (o *outdated) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	if o.records {
		return o.listing.Entries[0].Record, nil
	}
	return o.Store.Lookup(ctx, key)
}

// A process whose look at the store is outdated asks about no key that another process has
// just asked about.
func TestReconcileAfterAnother(t *testing.T) {
	t.Parallel()
	for _, records := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			s := newService(t, store, uncertain)
			s.post(t.Context(), "k", payment)
			old := &outdated{store, storage.Listing{Entries: list(t, store)}, records}
			asked := make(chan struct{}, 1)
			stop := s.reconcile(t, func(context.Context, core.Lost) (core.Finding, error) {
				asked <- struct{}{}
				return core.AskAgain, nil
			}, soon)
			<-asked
			stop()
			stop = newService(t, old, uncertain).reconcile(t, func(context.Context, core.Lost) (core.Finding, error) {
				t.Error("the key was asked about again")
				return core.AskAgain, nil
			}, soon)
			advance(5 * time.Second)
			stop()
		})
	}
}

// settledByHand is a store in which an operator settles each key right before it is claimed.
type settledByHand struct{ *memstore.Store }

func (s settledByHand) Acquire(ctx context.Context, r storage.Request) (storage.Lease, *storage.Record, error) {
	if err := s.Settle(ctx, r.Claim().Key, 1, storage.DidNotHappen); err != nil {
		return storage.Lease{}, nil, err
	}
	return s.Store.Acquire(ctx, r)
}

// A claim of a key that an operator has just released leaves no trace: the next retry runs.
func TestReconcileAfterAnOperator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, refusing := memstore.New(), policy.OnAbandoned(policy.Refuse)
		newService(t, store, uncertain, refusing).post(t.Context(), "k", payment)
		stop := newService(t, settledByHand{store}, uncertain, refusing).reconcile(t, finding(core.AskAgain), soon)
		advance(soon.After + 2*time.Second)
		stop()
		advance(time.Minute) // the claim is given back
		wantFirst(t, newService(t, store, created, refusing).post(t.Context(), "k", payment))
	})
}

// A FindFunc that ends its goroutine, as a test's FailNow does, ends the run too.
func TestFindFuncThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, memstore.New(), uncertain)
		s.post(t.Context(), "k", payment)
		stop := s.reconcile(t, func(context.Context, core.Lost) (core.Finding, error) {
			runtime.Goexit()
			return core.Happened, nil
		}, soon)
		advance(soon.After + 2*time.Second)
		stop()
		shutdown(t, s) // a run that goes on would be a deadlock of the bubble
	})
}

// Wrong options are refused, and the error names the option.
func TestReconcileOptions(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	for want, o := range map[string]core.ReconcileOptions{
		"After is -1ns": {After: -1}, "Every is -1ns": {Every: -1}, "Backoff is -1ns": {Backoff: -1}, "MaxBackoff is -1ns": {MaxBackoff: -1},
		"FindTimeout is -1ns": {FindTimeout: -1}, "Concurrency is -1": {Concurrency: -1},
	} {
		testkit.Fails(t, "Reconcile", s.Reconcile(t.Context(), finding(core.Happened), o), nil, "oncekey: ReconcileOptions."+want)
	}
	testkit.Fails(t, "Reconcile", s.Reconcile(t.Context(), nil, core.ReconcileOptions{}), nil, "nil function")
	testkit.Fails(t, "Reconcile", newService(t, newFaultyStore(), created).Reconcile(t.Context(), finding(core.Happened), soon), nil, "storage.Inspector")
}

// earlier is a store whose clock is an hour behind that of the process.
type earlier struct{ *memstore.Store }

func (s earlier) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	found, err := s.Store.Lookup(ctx, key)
	return s.shown(found), err
}

func (s earlier) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	listing, err := s.Store.List(ctx, filter, page)
	for i := range listing.Entries {
		listing.Entries[i].Record = s.shown(listing.Entries[i].Record)
	}
	return listing, err
}

// shown is a record with its time by the store's clock.
func (earlier) shown(found *storage.Record) *storage.Record {
	if found == nil {
		return nil
	}
	shown := *found
	shown.Created = shown.Created.Add(-time.Hour)
	return &shown
}

// The clock of a process does not say how long a key has been abandoned.
func TestReconcileGoesByTheClockOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, earlier{memstore.New()}, uncertain)
		s.post(t.Context(), "k", payment)
		s.reconcile(t, finding(core.Happened), soon)
		advance(soon.After - 2*time.Second)
		s.wantEvent(t, event.Reconciled, 0)
		advance(4 * time.Second)
		s.wantEvent(t, event.Reconciled, 1)
	})
}
