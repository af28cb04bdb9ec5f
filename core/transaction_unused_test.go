package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 82: a run that keeps its response without having taken its transaction is reported.
func TestTransactionThatIsNotTaken(t *testing.T) {
	t.Parallel()
	take := func(ctx context.Context) { bankOf(ctx).delta = 1 }
	type key struct{}
	type row struct {
		handle   http.HandlerFunc
		reported int
	}
	testkit.EachInBubble(t, map[string]row{
		"taken": {func(w http.ResponseWriter, r *http.Request) { take(r.Context()); created(w, r) }, 0},
		"taken from a derived context": {func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(context.WithValue(r.Context(), key{}, 1))
			defer cancel()
			take(ctx)
			created(w, r)
		}, 0},
		"taken beside a step": {func(w http.ResponseWriter, r *http.Request) {
			_, err := core.Step(r.Context(), "charge", func(context.Context) (int, error) { take(r.Context()); return 1, nil })
			if err != nil {
				t.Error(err)
			}
			created(w, r)
		}, 0},
		"never taken": {created, 1},
		"looked for in a step, which has none": {func(w http.ResponseWriter, r *http.Request) {
			_, err := core.Step(r.Context(), "charge", func(ctx context.Context) (int, error) {
				if bankOf(ctx) != nil {
					t.Error("a step has a transaction")
				}
				return 1, nil
			})
			if err != nil {
				t.Error(err)
			}
			created(w, r)
		}, 1},
		"a stream":                       {streaming, 1},
		"a redirect":                     {responding(http.StatusSeeOther), 1},
		"refused before the transaction": {responding(http.StatusBadRequest), 0},
		"an error after the effect": {func(w http.ResponseWriter, r *http.Request) {
			failure.MarkExecuted(r.Context())
			w.WriteHeader(http.StatusInternalServerError)
		}, 1},
		"a panic after the effect": {func(_ http.ResponseWriter, r *http.Request) {
			failure.MarkExecuted(r.Context())
			panic("a bug")
		}, 1},
		"released":  {responding(http.StatusServiceUnavailable), 0},
		"a panic":   {func(http.ResponseWriter, *http.Request) { panic("a bug") }, 0},
		"retryable": {func(w http.ResponseWriter, r *http.Request) { failure.MarkRetryable(r.Context()); created(w, r) }, 0},
	}, func(t *testing.T, row row) {
		s := newBankService(t, newBank(), row.handle)
		recovered(func() { s.post(t.Context(), "k", payment) })
		s.wantEvent(t, event.TransactionUnused, row.reported)
	})
	plain := newService(t, newBank(), created)
	plain.post(t.Context(), "k", payment)
	plain.wantEvent(t, event.TransactionUnused, 0)
}

// Case 82: the same holds for a function of Do.
func TestTransactionThatACallDoesNotTake(t *testing.T) {
	t.Parallel()
	type row struct {
		function func(context.Context) (int, error)
		reported int
	}
	testkit.EachInBubble(t, map[string]row{
		"taken":       {func(ctx context.Context) (int, error) { bankOf(ctx).delta = 1; return 1, nil }, 0},
		"never taken": {func(context.Context) (int, error) { return 1, nil }, 1},
		"an error":    {func(context.Context) (int, error) { return 0, errors.New("no") }, 0},
		"a refusal":   {func(context.Context) (int, error) { return 0, failure.Permanent(errors.New("no")) }, 0},
	}, func(t *testing.T, row row) {
		var log bytes.Buffer
		engine := engineOf(t, newBank(), core.WithObserver(event.Log(slog.New(slog.NewTextHandler(&log, nil)))))
		call := core.Call{Scope: "s", Name: "deposit", Key: "k", Route: engine.MustRoute(policy.Transactional(true))}
		_, _, _ = core.Do(t.Context(), engine, call, row.function)
		lines := strings.Split(log.String(), "\n")
		reported := 0
		for _, line := range lines {
			if strings.Contains(line, "level=WARN") && strings.Contains(line, "result=transaction_unused") && strings.Contains(line, "deposit") {
				reported++
			}
		}
		if reported != row.reported {
			t.Errorf("%d warnings, want %d:\n%s", reported, row.reported, &log)
		}
	})
}
