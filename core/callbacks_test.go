package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
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

// panickyObserver panics at some results, once each time it is armed.
type panickyObserver struct {
	events
	at event.Result
}

func (o *panickyObserver) Observe(ctx context.Context, event event.Event) {
	o.events.Observe(ctx, event)
	if event.Result == o.at {
		panic("observer bug")
	}
}

// Case 39: an Observer that panics at any event changes no response, in a request and
// on the engine's own goroutines.
func TestPanickingObserverChangesNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []event.Result{
		event.Execute, event.Completed, event.Replay, event.SettleDeferred, event.StoreError,
		event.LeaseLost, event.DeleteKey, event.RunTooLong,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			observer := &panickyObserver{at: at}
			engine := engineOf(t, store, core.WithObserver(observer))
			slow := engine.Handler(createdAfter(10*time.Second), policy.LockTTL(3*time.Second), policy.MaxRun(20*time.Second))
			broken := engine.Handler(responding(http.StatusInternalServerError))
			endless := engine.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), policy.MaxRun(time.Second))
			send := func(handler http.Handler, key string) *httptest.ResponseRecorder {
				return testkit.Serve(handler, newPost(t.Context(), key, payment))
			}
			wantFirst(t, send(slow, "plain"))
			wantReplay(t, send(slow, "plain"))
			store.set(&store.extend, &store.complete)(failUnapplied)
			send(slow, "lost") // renewals fail, the lease is lost, the response deferred
			store.set(&store.extend, &store.complete)(nil)
			advance(time.Second)
			wantReplay(t, send(slow, "lost"))
			send(broken, "broken")
			send(broken, "broken")
			send(endless, "endless")
			if observer.count(at) == 0 {
				t.Errorf("no event %s was observed", at)
			}
			shutdown(t, engine)
		})
	}
}

// A Classifier that ends its goroutine, as a test's FailNow does, ends the run too.
func TestClassifierThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, newFaultyStore(), created, policy.Classifier(func(failure.Outcome) failure.Class {
			runtime.Goexit()
			return failure.ClassCache
		}))
		go s.post(t.Context(), "k", payment)
		synctest.Wait()
		if s.events.count(event.Uncertain) != 1 || len(s.Running()) > 0 {
			t.Errorf("the run has not left its key abandoned: %v", s.Running())
		}
		shutdown(t, s) // a run that goes on would be a deadlock of the bubble
	})
}

// Case 39: a store that panics is a store that fails, before and after its work.
func TestPanickingStoreIsAFailingStore(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]func(func() error) error{
		"before": func(func() error) error { panic("store bug") },
		"after":  func(apply func() error) error { _ = apply(); panic("store bug") },
	}, func(t *testing.T, fault func(func() error) error) {
		store := newFaultyStore()
		s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
			advance(5 * time.Second)
			if r.Header.Get(core.KeyHeader) == "failing" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			created(w, r)
		}, policy.LockTTL(3*time.Second))
		for _, place := range []*func(func() error) error{&store.acquire, &store.complete, &store.release, &store.extend} {
			store.set(place)(fault)
			s.post(t.Context(), "k", payment)
			s.post(t.Context(), "failing", payment)
			store.set(place)(nil)
			advance(time.Minute)
		}
		wantReplay(t, s.post(t.Context(), "k", payment))
		if s.events.count(event.StoreError)+s.events.count(event.SettleDeferred) == 0 {
			t.Error("no event reports the panics")
		}
		shutdown(t, s)
	})
}

// brokenExaminer is a store with checks that panic.
type brokenExaminer struct{ *memstore.Store }

func (brokenExaminer) Examine(context.Context) []storage.Finding { panic("examiner bug") }

// Case 39: checks that panic are a finding. An operator's program calls them outside of
// any request.
func TestPanickingExaminerIsAFinding(t *testing.T) {
	t.Parallel()
	s := newService(t, brokenExaminer{memstore.New()}, created)
	findings, examined := inspectorOf(t, s).Examine(t.Context())
	if !examined || len(findings) != 1 || findings[0].Grade != storage.Skipped || !strings.Contains(findings[0].Seen, "the Store panicked at") {
		t.Errorf("the findings are %+v and %t, want one that names the panic", findings, examined)
	}
}

// Case 39: a Classifier that panics is replaced by the default, for a kept response
// and for one that streams.
func TestPanickingClassifierIsReplaced(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]bool{"kept": false, "streamed": true}, func(t *testing.T, flush bool) {
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			created(w, r)
			if flush {
				_ = http.NewResponseController(w).Flush()
			}
		}, policy.Classifier(func(failure.Outcome) failure.Class { panic("classifier bug") }))
		wantFirst(t, s.post(t.Context(), "k", payment))
		if again := s.post(t.Context(), "k", payment); flush {
			wantCode(t, again, http.StatusConflict, problem.NotReplayable)
		} else {
			wantReplay(t, again)
		}
		s.wantRuns(t, 1)
		if s.events.count(event.CallbackPanicked) == 0 {
			t.Error("no event reports the panic")
		}
		shutdown(t, s)
	})
}

// Case 39: a problem.Writer that panics, or that writes no response, is replaced by the
// default: for a refusal, and in place of a handler's response.
func TestPanickingProblemWriterIsReplaced(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]problem.Writer{
		"panics at once": func(http.ResponseWriter, *http.Request, problem.Problem) { panic("writer bug") },
		"panics half-way": func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) {
			w.WriteHeader(http.StatusTeapot)
			panic("writer bug")
		},
		"writes no response": func(http.ResponseWriter, *http.Request, problem.Problem) {},
	}, func(t *testing.T, write problem.Writer) {
		s := newServiceOf(t, memstore.New(), func(_ http.ResponseWriter, r *http.Request) {
			if !failure.MarkExecuted(r.Context()) {
				t.Error("the mark does not count")
			}
			panic("handler bug")
		}, nil, core.WithProblemWriter(write))
		wantCode(t, s.post(t.Context(), "", payment), http.StatusBadRequest, problem.KeyInvalid)
		if recovered(func() { s.post(t.Context(), "k", payment) }) == nil {
			t.Error("the handler's panic was swallowed")
		}
		wantCode(t, s.post(t.Context(), "k", payment), http.StatusInternalServerError, problem.HandlerFailed)
		for _, event := range s.events.seen() {
			if event.Err != nil && strings.Contains(event.Err.Error(), "writer bug") {
				t.Errorf("the event shows the panic's value: %v", event.Err) // Case 43
			}
		}
		s.wantEvent(t, event.CallbackPanicked, 2)
		s.wantRuns(t, 1)
		shutdown(t, s)
	})
}

// Case 39: panics of a scope function and of a RecoverFunc are reported. The panic
// continues, as a handler's does, and blocks no key.
func TestPanickingScopeAndRecoverFunc(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, seen, broken := newFaultyStore(), &events{}, ""
		engine := engineFor(t, store, func(*http.Request) (string, error) {
			if broken == "scope" {
				panic("scope bug")
			}
			return "alice", nil
		}, core.WithObserver(seen))
		handler := engine.Handler(http.HandlerFunc(created), lookingInto(func(context.Context, policy.Abandoned) {
			if broken == "recover" {
				panic("recover bug")
			}
		}))
		claimOfAnotherVersion(t, store, time.Second)
		advance(2 * time.Second)
		for _, broken = range []string{"scope", "recover"} {
			if value := recovered(func() { testkit.Serve(handler, newPost(t.Context(), "k", payment)) }); value != broken+" bug" {
				t.Errorf("the panic of %s became %v", broken, value)
			}
			advance(time.Second)
		}
		broken = ""
		wantFirst(t, testkit.Serve(handler, newPost(t.Context(), "k", payment)))
		testkit.Equal(t, seen.count(event.CallbackPanicked), 2, "events that report the panics: %v", seen.results())
		shutdown(t, engine)
	})
}
