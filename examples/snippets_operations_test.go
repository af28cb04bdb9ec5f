package examples_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// ledger is a provider that can be asked.
type ledger map[string][]byte

func (l ledger) Find(_ context.Context, key string) ([]byte, error) { return l[key], nil }

func reconcile(ctx context.Context, engine *core.Engine, provider ledger) error {
	find := func(ctx context.Context, lost core.Lost) (core.Finding, error) {
		payment, err := provider.Find(ctx, lost.DerivedKey("charge")) // the key that the handler gave to the provider
		switch {
		case err != nil:
			return core.AskAgain, err
		case payment == nil:
			return core.DidNotHappen, nil
		default:
			return core.Responded(policy.Response{Status: http.StatusCreated, Body: payment}), nil
		}
	}
	return engine.Reconcile(ctx, find, core.ReconcileOptions{After: 20 * time.Minute}) // until ctx ends
}

// The snippet of docs/operations.md settles a charge whose reply was lost.
func TestReconcileOfTheDocs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := core.New(memstore.New(), core.ScopeBy(userID))
		testkit.Must(t, err)
		provider := make(ledger)
		handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			provider[core.DeriveKey(r.Context(), "charge")] = []byte(`{"id":1}`)
			failure.MarkUncertain(r.Context(), "no reply")
			w.WriteHeader(http.StatusBadGateway)
		}))
		sent(t, handler, "k")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		testkit.Must(t, reconcile(ctx, engine, provider))
		if w := sent(t, handler, "k"); w.Code != http.StatusCreated || w.Body.String() != `{"id":1}` || w.Header().Get("X-Idempotent-Replay") != "true" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
}

// Case 101: the log proves how often a handler ran. The number of the attempt does not: a released key begins at 1 again.
func TestRunsOfAKeyInTheLog(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	engine, err := core.New(memstore.New(), core.ScopeBy(userID), core.WithObserver(
		event.Log(logger, event.LogAt(slog.LevelInfo, event.Execute, event.Replay)), // one line for each run, when it begins, and for each replay
	))
	testkit.Must(t, err)
	runs := 0
	handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch runs++; runs {
		case 1:
			w.WriteHeader(http.StatusInternalServerError) // releases the key
		case 2:
			panic(http.ErrAbortHandler) // so does a panic
		case 3:
			failure.MarkRetryable(r.Context())
		default:
			w.WriteHeader(http.StatusCreated)
		}
	}))
	for range 6 {
		func() {
			defer func() {
				if cause, _ := recover().(error); cause != nil && !errors.Is(cause, http.ErrAbortHandler) {
					panic(cause)
				}
			}()
			sent(t, handler, "k")
		}()
	}
	begun := strings.Count(lines.String(), "event=idempotency.execute ")
	replays := strings.Count(lines.String(), "event=idempotency.replay ")
	first := strings.Count(lines.String(), "event=idempotency.execute result=execute endpoint=\"POST /payments\" attempt=1 ")
	if runs != 4 || begun != 4 || first != 4 || replays != 2 {
		t.Errorf("%d runs, %d lines of runs, %d with attempt=1 and %d of replays, want 4, 4, 4, 2:\n%s", runs, begun, first, replays, &lines)
	}
	for line := range strings.Lines(lines.String()) {
		if !strings.Contains(line, " record=") {
			t.Errorf("a line without the record: %s", line)
		}
	}
}

type lastEvent struct{} // the context key of a request's last event

// toAccessLog hands the events of a request to accessLog.
type toAccessLog struct{ event.Observer }

func (o toAccessLog) Observe(ctx context.Context, e event.Event) {
	if last, ok := ctx.Value(lastEvent{}).(*atomic.Pointer[event.Event]); ok {
		last.Store(&e)
	}
	o.Observer.Observe(ctx, e)
}

func accessLog(logger *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var last atomic.Pointer[event.Event]
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lastEvent{}, &last)))
		attrs := []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path)}
		if e := last.Load(); e != nil {
			attrs = append(attrs, slog.Any("result", e.Result), slog.String("record", e.Record))
		}
		logger.LogAttrs(r.Context(), slog.LevelInfo, "request", attrs...)
	})
}

// The guard's log at Info is silent about a run and its replay. The line of the access log leads to the record.
func TestFromTheAccessLogToTheRecord(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	store := memstore.New()
	engine, err := core.New(store, core.ScopeBy(userID), core.WithObserver(toAccessLog{event.Log(logger)}))
	testkit.Must(t, err)
	handler := accessLog(logger, engine.Handler(http.HandlerFunc(pay), policy.Required(false)))
	payTwice(t, handler, "/payments")
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/payments", http.NoBody))
	page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 2})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("the store has %+v, %v", page, err)
	}
	record := " record=" + page.Entries[0].Key + "\n"
	got := strings.SplitAfter(lines.String(), "\n")
	if len(got) != 4 || !strings.HasSuffix(got[0], "path=/payments result=completed"+record) ||
		!strings.HasSuffix(got[1], "path=/payments result=replay"+record) || !strings.HasSuffix(got[2], "method=GET path=/payments\n") {
		t.Errorf("the log is\n%s", &lines)
	}
}
