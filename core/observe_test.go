package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// observed returns the results of the events, and fails unless all are marked.
func (s *service) observed(t *testing.T) []event.Result {
	t.Helper()
	for _, event := range s.events.seen() {
		if !event.Observed {
			t.Errorf("the event %s is not marked as observed", event.Result)
		}
	}
	return s.events.results()
}

// Every request runs its handler. Events report the decisions of a guard.
func TestObserveChangesNothing(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created, policy.ObserveOnly(true))
	keyless := newPost(t.Context(), "", payment)
	keyless.Header.Del(core.KeyHeader)
	foreign := newPost(t.Context(), "k2", payment)
	foreign.Header.Del("Authorization")
	for _, r := range []*http.Request{
		newPost(t.Context(), "k", payment), newPost(t.Context(), "k", payment), newPost(t.Context(), "k", `{}`), keyless, foreign,
	} {
		wantFirst(t, testkit.Serve(s.handler, r))
	}
	s.wantRuns(t, 5)
	want := []event.Result{
		event.Execute, event.Completed, event.Replay, event.KeyReused, event.Refused, event.Refused,
	}
	testkit.EqualSlices(t, s.observed(t), want, "the events")
}

// A Scope or a SkipIf that panics is reported, and the handler runs.
func TestObserveWithPanickingCallbacks(t *testing.T) {
	t.Parallel()
	broken := func(*http.Request) bool { panic("bug") }
	for name, options := range map[string][]policy.Option{"Scope": nil, "SkipIf": {policy.SkipIf(broken)}} {
		seen := &events{}
		engine := engineFor(t, memstore.New(), func(r *http.Request) (string, error) { return fmt.Sprint(broken(r)), nil }, core.WithObserver(seen))
		handler := engine.Handler(http.HandlerFunc(created), append(options, policy.ObserveOnly(true))...)
		wantFirst(t, testkit.Serve(handler, newPost(t.Context(), "k", payment)))
		if seen.count(event.CallbackPanicked) != 1 {
			t.Errorf("%s: the events are %v", name, seen.results())
		}
	}
}

func TestObserveReportsTheDecisionOfAGuard(t *testing.T) {
	t.Parallel()
	type row struct {
		handle http.HandlerFunc
		want   event.Result
	}
	testkit.EachInBubble(t, map[string]row{
		"kept":                {created, event.Completed},
		"no response written": {func(http.ResponseWriter, *http.Request) {}, event.Completed},
		"a lasting no":        {responding(http.StatusUnprocessableEntity), event.Failed},
		"broke down":          {responding(http.StatusBadGateway), event.DeleteKey},
		"marked": {func(w http.ResponseWriter, r *http.Request) {
			failure.MarkRetryable(r.Context())
			w.WriteHeader(http.StatusConflict)
		}, event.Retryable},
		"flushed":              {createdAsStream, event.Unreplayable},
		"flushed, the old way": {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, event.Unreplayable},
		"shorter than its Content-Length": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "99")
			created(w, r)
		}, event.Unreplayable},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("a", 101)) }, event.Unreplayable},
	}, func(t *testing.T, row row) {
		s := newService(t, memstore.New(), row.handle, policy.ObserveOnly(true), policy.MaxResponseBytes(100))
		s.post(t.Context(), "k", payment)
		if got := s.observed(t); got[len(got)-1] != row.want {
			t.Errorf("the events are %v, want %s at the end", got, row.want)
		}
	})
}

// The handler's context is the request's own, and ends when the client disconnects, as
// without a guard.
func TestObserveDoesNotDetach(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		hangUp()
		if r.Context().Err() == nil {
			t.Error("the handler's context outlived the client")
		}
		testkit.Equal(t, core.KeyFrom(r.Context()), "", "an observed handler found a key")
		created(w, r)
	}, policy.ObserveOnly(true))
	wantFirst(t, s.post(ctx, "k", payment))
}

// The handler reads the client's body, even if a guard would have refused the body.
func TestObserveLeavesTheBody(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	type row struct {
		body io.Reader
		want string
		err  error
	}
	testkit.EachInBubble(t, map[string]row{
		"small":                        {strings.NewReader("abc"), "abc", nil},
		"at the limit":                 {strings.NewReader("abcdefgh"), "abcdefgh", nil},
		"too large":                    {strings.NewReader("abcdefghi"), "abcdefghi", nil},
		"too large, of unknown length": {iotest.OneByteReader(strings.NewReader("abcdefghijklm")), "abcdefghijklm", nil},
		"cut off":                      {io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(cut)), "abc", cut},
	}, func(t *testing.T, row row) {
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if string(body) != row.want || !errors.Is(err, row.err) {
				t.Errorf("the handler read %q, %v, want %q, %v", body, err, row.want, row.err)
			}
			created(w, r)
		}, policy.ObserveOnly(true), policy.MaxRequestBytes(8))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", row.body)
		r.Header = newPost(t.Context(), "k", payment).Header
		wantFirst(t, testkit.Serve(s.handler, r))
		if refused := s.events.count(event.Refused) == 1; refused != (len(row.want) > 8 || row.err != nil) {
			t.Errorf("the events are %v", s.events.results())
		}
	})
}

// Observing needs no store: without one, requests are late by the StoreTimeout.
func TestObserveWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, store, created, policy.ObserveOnly(true))
		store.set(&store.acquire)(failUnapplied)
		wantFirst(t, s.post(t.Context(), "k1", payment))
		store.set(&store.acquire)(nil)
		store.set(&store.complete)(failUnapplied)
		wantFirst(t, s.post(t.Context(), "k2", payment))
		s.wantEvent(t, event.Unavailable, 1)
		s.wantEvent(t, event.SettleDeferred, 1)
		store.set(&store.complete)(nil)
		advance(time.Second)
	})
}

// An observed key has no stored response. When the route is guarded later, a retry is
// refused: the handler does not run again, and no empty response is sent.
func TestObserveThenGuard(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	newService(t, store, created, policy.ObserveOnly(true)).post(t.Context(), "k", payment)
	guard := newService(t, store, created)
	wantCode(t, guard.post(t.Context(), "k", payment), http.StatusConflict, problem.NotReplayable)
	guard.wantRuns(t, 0)
}

func TestObserveOnlyIsForEveryRoute(t *testing.T) {
	t.Parallel()
	seen := &events{}
	engine := engineFor(t, memstore.New(), core.ScopeBy(bearer), core.WithObserver(seen), core.WithObserveOnly())
	handler := engine.Handler(engine.Handler(http.HandlerFunc(created))) // two guards
	for range 2 {
		wantFirst(t, testkit.Serve(handler, newPost(t.Context(), "k", payment)))
	}
	testkit.EqualSlices(t, seen.results(), []event.Result{event.Execute, event.Completed, event.Replay}, "the events")
	for range 2 {
		_, info, err := core.Do(t.Context(), engine, chargeCall("k", nil), func(ctx context.Context) (int, error) {
			_, _, err := core.Do(ctx, engine, chargeCall("k", nil), func(context.Context) (int, error) { return 1, nil })
			return 1, err
		})
		if err != nil || info != (core.Info{}) {
			t.Errorf("a call returned %+v, %v", info, err)
		}
	}
	testkit.EqualSlices(t, seen.results()[3:], []event.Result{event.Execute, event.Completed, event.Replay}, "the events of calls")
	if _, err := engine.Route(policy.Transactional(true)); err == nil {
		t.Error("a transactional route was accepted")
	}
}

// wantSameEvents compares the results and statuses of a guard and of an observing route.
func wantSameEvents(t *testing.T, guarded, observed *events) {
	t.Helper()
	of := func(e *events) (all []string) {
		for _, event := range e.seen() {
			all = append(all, fmt.Sprint(event.Result, " ", event.Status, " ", event.Panicked))
		}
		return all
	}
	if want, got := of(guarded), of(observed); !slices.Equal(got, want) {
		t.Errorf("observed: %q\n guarded: %q", got, want)
	}
}

// A handler that panics, or stops before the end of its response, gets from a guard
// another status and class than it has written.
func TestObserveReportsTheResponseOfAGuard(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]http.HandlerFunc{
		"panics": func(http.ResponseWriter, *http.Request) { panic("broken") },
		"panics after a response": func(w http.ResponseWriter, r *http.Request) {
			created(w, r)
			panic("broken")
		},
		"panics after MarkExecuted": func(_ http.ResponseWriter, r *http.Request) {
			failure.MarkExecuted(r.Context())
			panic("broken")
		},
		"panics after MarkExecuted and a response": func(w http.ResponseWriter, r *http.Request) {
			failure.MarkExecuted(r.Context())
			created(w, r)
			panic("broken")
		},
	}, func(t *testing.T, handle http.HandlerFunc) {
		guarded, observed := newService(t, memstore.New(), handle), newService(t, memstore.New(), handle, policy.ObserveOnly(true))
		for _, s := range []*service{guarded, guarded, observed, observed} {
			if value := recovered(func() { s.post(t.Context(), "k", payment) }); value != "broken" && s == observed {
				t.Errorf("the panic became %v", value)
			}
		}
		wantSameEvents(t, guarded.events, observed.events)
	})
}

func TestObserveReportsTheErrorOfACall(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]func(context.Context) (int, error){
		"an error":           func(context.Context) (int, error) { return 0, errors.New("no") },
		"a permanent error":  func(context.Context) (int, error) { return 0, failure.Permanent(errors.New("no")) },
		"a panic":            func(context.Context) (int, error) { panic("broken") },
		"after MarkExecuted": func(ctx context.Context) (int, error) { failure.MarkExecuted(ctx); return 0, errors.New("no") },
		"a panic after MarkExecuted": func(ctx context.Context) (int, error) {
			failure.MarkExecuted(ctx)
			panic("broken")
		},
	}, func(t *testing.T, function func(context.Context) (int, error)) {
		guarded, observed := newService(t, memstore.New(), created), newService(t, memstore.New(), created)
		for _, s := range []*service{guarded, guarded, observed, observed} {
			call := chargeCall("k", nil)
			call.Route = s.MustRoute(policy.ObserveOnly(s == observed))
			recovered(func() { _, _, _ = core.Do(t.Context(), s.Engine, call, function) }) // the events count
		}
		wantSameEvents(t, guarded.events, observed.events)
	})
}

// tracing reads a value of the context, and delays the beginning of a run for longer than
// the first renewal.
type tracing struct{}

func (tracing) Observe(ctx context.Context, e event.Event) {
	_ = ctx.Value(tracing{})
	if e.Result == event.Execute {
		advance(11 * time.Second)
	}
}

// A renewal reports events with the context of the request while the run begins.
func TestObserverReadsTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := engineOf(t, memstore.New(), core.WithObserver(tracing{}))
		observes := policy.ObserveOnly(true)
		wantFirst(t, testkit.Serve(engine.Handler(http.HandlerFunc(created), observes), newPost(t.Context(), "k", payment)))
		call := core.Call{Scope: "s", Name: "charge", Key: "k", Route: engine.MustRoute(observes)}
		_, _, err := core.Do(t.Context(), engine, call, func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			t.Error(err)
		}
		shutdown(t, engine)
	})
}
