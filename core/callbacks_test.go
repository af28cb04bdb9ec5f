package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
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
	results := []event.Result{
		event.Execute, event.Completed, event.Replay, event.SettleDeferred, event.StoreError,
		event.LeaseLost, event.DeleteKey, event.RunTooLong,
	}
	for _, at := range results {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				observer := &panickyObserver{at: at}
				engine := engineOf(t, store, core.WithObserver(observer))
				slow := engine.Handler(createdAfter(10*time.Second), policy.LockTTL(3*time.Second), policy.MaxRun(20*time.Second))
				broken := engine.Handler(responding(http.StatusInternalServerError))
				endless := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
				}), policy.MaxRun(time.Second))
				send := func(handler http.Handler, key string) *httptest.ResponseRecorder {
					w := sendTo(handler, newPost(t.Context(), key, payment))
					return w
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Case 39: a store that panics is a store that fails, before and after its work.
func TestPanickingStoreIsAFailingStore(t *testing.T) {
	t.Parallel()
	panics := map[string]func(func() error) error{
		"before": func(func() error) error { panic("store bug") },
		"after": func(apply func() error) error {
			_ = apply()
			panic("store bug")
		},
	}
	for name, fault := range panics {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
					advance(5 * time.Second)
					if r.Header.Get("Fail") != "" {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					created(w, r)
				}, policy.LockTTL(3*time.Second))
				for _, place := range []*func(func() error) error{&store.acquire, &store.complete, &store.release, &store.extend} {
					store.set(place)(fault)
					s.post(t.Context(), "k", payment)
					failing := newPost(t.Context(), "failing", payment)
					failing.Header.Set("Fail", "true")
					sendTo(s.handler, failing)
					store.set(place)(nil)
					advance(time.Minute)
				}
				wantReplay(t, s.post(t.Context(), "k", payment))
				if s.events.count(event.StoreError)+s.events.count(event.SettleDeferred) == 0 {
					t.Error("no event reports the panics")
				}
				shutdown(t, s)
			})
		})
	}
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
	each(t, map[string]bool{"kept": false, "streamed": true}, func(t *testing.T, flush bool) {
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
	writers := map[string]problem.Writer{
		"panics at once": func(http.ResponseWriter, *http.Request, problem.Problem) { panic("writer bug") },
		"panics half-way": func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) {
			w.WriteHeader(http.StatusTeapot)
			panic("writer bug")
		},
		"writes no response": func(http.ResponseWriter, *http.Request, problem.Problem) {},
	}
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &events{}
			engine := engineOf(t, memstore.New(), core.WithObserver(seen), core.WithProblemWriter(write))
			var marked atomic.Bool
			handler := engine.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				marked.Store(failure.MarkExecuted(r.Context()))
				panic("handler bug")
			}))
			w := sendTo(handler, newPost(t.Context(), "", payment))
			wantCode(t, w, http.StatusBadRequest, problem.KeyInvalid)

			if recovered(func() { sendTo(handler, newPost(t.Context(), "k", payment)) }) == nil {
				t.Error("the handler's panic was swallowed")
			}
			w = sendTo(handler, newPost(t.Context(), "k", payment))
			wantCode(t, w, http.StatusInternalServerError, problem.HandlerFailed)
			for _, event := range seen.all {
				if event.Err != nil && strings.Contains(event.Err.Error(), "writer bug") {
					t.Errorf("the event shows the panic's value: %v", event.Err) // Case 43
				}
			}
			if n := seen.count(event.CallbackPanicked); n != 2 || !marked.Load() {
				t.Errorf("%d events report the panics: %v", n, seen.results())
			}
			shutdown(t, engine)
		})
	}
}

// Case 39: panics of a scope function and of a RecoverFunc are reported. The panic
// continues, as a handler's does, and blocks no key.
func TestPanickingScopeAndRecoverFunc(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		var broken atomic.Bool
		broken.Store(true)
		seen := &events{}
		engine, err := core.New(store, func(*http.Request) (string, error) {
			if broken.Load() {
				panic("scope bug")
			}
			return "alice", nil
		}, core.WithObserver(seen))
		if err != nil {
			t.Fatal(err)
		}
		handler := engine.Handler(http.HandlerFunc(created), policy.OnAbandoned(policy.Recover(
			func(context.Context, policy.Abandoned) (*policy.Response, error) {
				if broken.Load() {
					panic("recover bug")
				}
				return nil, nil //nolint:nilnil // the attempt had no effect
			})))
		send := func() (w *httptest.ResponseRecorder, recovered any) {
			w = httptest.NewRecorder()
			defer func() { recovered = recover() }()
			handler.ServeHTTP(w, newPost(t.Context(), "k", payment))
			return w, nil
		}
		if _, recovered := send(); recovered != "scope bug" {
			t.Errorf("the scope's panic became %v", recovered)
		}
		broken.Store(false)
		claim := storage.Claim{
			Key: storage.Key("alice", http.MethodPost, "/payments", "k"), Token: storage.NewToken(),
			Digest: digestOf(payment), LockTTL: time.Second, Retain: time.Hour,
		}
		if _, _, err := store.Acquire(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		advance(2 * time.Second)
		broken.Store(false)
		recovering := engine.Handler(http.HandlerFunc(created), policy.OnAbandoned(policy.Recover(
			func(context.Context, policy.Abandoned) (*policy.Response, error) { panic("recover bug") })))
		func() {
			defer func() {
				if recovered := recover(); recovered != "recover bug" {
					t.Errorf("the RecoverFunc's panic became %v", recovered)
				}
			}()
			sendTo(recovering, newPost(t.Context(), "k", payment))
		}()
		advance(time.Second)
		w, _ := send()
		wantFirst(t, w)
		if n := seen.count(event.CallbackPanicked); n != 2 {
			t.Errorf("%d events report the panics: %v", n, seen.results())
		}
		shutdown(t, engine)
	})
}

// Case 39: a codec that panics while it encodes a result ends the run as a panic of
// the function does.
type panickyCodec struct{ core.Codec }

func (panickyCodec) Marshal(any) ([]byte, error) { panic("codec bug") }
func (panickyCodec) Unmarshal([]byte, any) error { panic("codec bug") }
func (panickyCodec) MediaType() string           { return "application/json" }

func TestPanickingCodec(t *testing.T) {
	t.Parallel()
	seen := &events{}
	engine := engineOf(t, memstore.New(), core.WithObserver(seen))
	runs := 0
	call := func() (recovered any) {
		defer func() { recovered = recover() }()
		_, _, err := core.Do(t.Context(), engine, core.Call{Scope: "s", Name: "charge", Key: "k", Codec: panickyCodec{}},
			func(context.Context) (int, error) { runs++; return runs, nil })
		return err
	}
	if recovered := call(); recovered != "codec bug" {
		t.Errorf("the codec's panic became %v", recovered)
	}
	shutdown(t, engine)
}
