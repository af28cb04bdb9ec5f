package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

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
	each(t, map[string]http.HandlerFunc{
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
		guarded, observed := newService(t, memstore.New(), handle), newService(t, memstore.New(), handle, policy.Observe(true))
		for _, s := range []*service{guarded, guarded, observed, observed} {
			recovered(func() { s.post(t.Context(), "k", payment) })
		}
		wantSameEvents(t, guarded.events, observed.events)
	})
}

func TestObserveReportsTheErrorOfACall(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(context.Context) (int, error){
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
			call.Route = s.MustRoute(policy.Observe(s == observed))
			recovered(func() { _, _, _ = core.Do(t.Context(), s.Engine, call, function) }) // the events count
		}
		wantSameEvents(t, guarded.events, observed.events)
	})
}
