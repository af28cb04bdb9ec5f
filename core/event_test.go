package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
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

// logged returns the default observer's lines about some requests.
func logged(t *testing.T, handle http.HandlerFunc, requests ...*http.Request) (string, []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	engine := engineFor(t, memstore.New(), core.ScopeBy(bearer), core.WithInstance("pod-1"), core.WithObserver(event.Log(logger)))
	handler := engine.Handler(handle, policy.Required(false))
	for _, r := range requests {
		testkit.Serve(handler, r)
	}
	text := out.String()
	var lines []map[string]any
	for line := range strings.Lines(text) {
		var entry map[string]any
		testkit.Must(t, json.Unmarshal([]byte(line), &entry))
		lines = append(lines, entry)
	}
	return text, lines
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	text, lines := logged(t, created,
		newPost(t.Context(), "secret-key", payment), newPost(t.Context(), "secret-key", payment),
		newPost(t.Context(), "secret-key", `{}`))
	var results []string
	for _, line := range lines {
		results = append(results, line["result"].(string)+" "+line["level"].(string))
		for _, name := range []string{"event", "idempotency_key", "endpoint", "result", "instance", "duration_ms"} {
			if _, ok := line[name]; !ok {
				t.Errorf("no %s in %v", name, line)
			}
		}
		if record := line["record"]; record != storage.Key("alice", http.MethodPost, "/payments", "secret-key") {
			t.Errorf("the record of %v is %v", line["result"], record)
		}
		status := map[string]any{"completed": 201.0, "replay": 201.0, "key_reused": 422.0}[line["result"].(string)]
		testkit.Equal(t, line["status"], status, "the status of %v", line["result"])
		if line["instance"] != "pod-1" || line["endpoint"] != "POST /payments" || line["event"] != "idempotency."+line["result"].(string) {
			t.Errorf("got %v", line)
		}
	}
	testkit.Equal(t, strings.Join(results, ", "), "execute DEBUG, completed DEBUG, replay DEBUG, key_reused INFO", "the results")
	if strings.Contains(text, "secret-key") || strings.Contains(text, "alice") {
		t.Errorf("a key or a scope is logged in clear: %s", text)
	}
}

// A refusal at shutdown has no error: its code is the reason.
func TestLogHasTheCode(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	engine := engineOf(t, memstore.New(), core.WithObserver(event.Log(slog.New(slog.NewTextHandler(&out, nil)))))
	shutdown(t, engine)
	testkit.Serve(engine.Handler(http.HandlerFunc(created)), newPost(t.Context(), "k", payment))
	wantLine(t, out.String(), "result=unavailable", "code=shutting_down")
}

// Each result has one level, and LogAt sets another. A service at Info is silent while all is
// well.
func TestLogLevels(t *testing.T) {
	t.Parallel()
	subject := event.About(http.MethodPost, "/payments", "alice", "k", "pod-1")
	plain := func(results ...event.Result) (all []event.Event) {
		for _, result := range results {
			all = append(all, event.Event{Result: result})
		}
		return all
	}
	for level, all := range map[string][]event.Event{
		"DEBUG": append(plain(event.Execute, event.NoKey, event.Skipped, event.LeaseRenewed, event.Replay),
			event.Event{Result: event.Completed, Status: http.StatusCreated},
			event.Event{Result: event.Failed, Status: http.StatusPaymentRequired},
			event.Event{Result: event.Unreplayable, Status: http.StatusOK, Observed: true},
			event.Event{Result: event.StoreError, Subject: &subject}), // the decision follows
		"INFO": append(plain(event.InProgress, event.KeyReused, event.NotReplayable, event.KeyExpired, event.ScopeLimited, event.Refused,
			event.Retryable, event.DeleteKey, event.Reconciled, event.SettledByHand, event.Forgotten, event.Revealed),
			event.Event{Result: event.Replay, Observed: true}, // a second effect
			event.Event{Result: event.Failed, Status: http.StatusInternalServerError},
			event.Event{Result: event.Unreplayable, Status: http.StatusOK}),
		"WARN": append(plain(event.OutcomeUnknown, event.Unavailable, event.WrongSetup, event.Uncertain, event.SettleDeferred,
			event.NotConfirmed, event.LeaseLost, event.LeaseExpired, event.RunTooLong, event.RecoverError, event.TransactionUnused,
			event.ReconcileGaveUp, event.StoreError), // the last one of Engine.Reconcile
			event.Event{Result: event.Completed, Panicked: true},
			event.Event{Result: event.Failed, Panicked: true},
			event.Event{Result: event.StoreError, Subject: &subject, Attempt: 1}),
		"ERROR": plain(event.Unprotected, event.ResponseLost, event.CallbackPanicked, "by LogAt"),
	} {
		for _, happened := range all {
			var out bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			event.Log(logger, event.LogAt(slog.LevelError, "by LogAt")).Observe(t.Context(), happened)
			if !strings.Contains(out.String(), "level="+level) {
				t.Errorf("%+v: %swant %s", happened, out.String(), level)
			}
		}
	}
}

// One line tells why a request got a 503, and names the record.
func TestOneLineForAnUnreachableStore(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	store := newFaultyStore()
	store.acquire = failUnapplied
	engine := engineOf(t, store, core.WithObserver(event.Log(slog.New(slog.NewTextHandler(&out, nil)))))
	defer testkit.Abort(engine) // ends the release of the claim
	testkit.Serve(engine.Handler(http.HandlerFunc(created)), newPost(t.Context(), "k", payment))
	wantLine(t, out.String(), "level=WARN", "result=unavailable", "status=503", `error="connection refused"`,
		"record="+engine.StorageKey("\x00shared", http.MethodPost, "/payments", "k"))
}

// wantLine checks that a log is one line, with these parts.
func wantLine(t *testing.T, log string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(log, part) {
			t.Errorf("no %s in %s", part, log)
		}
	}
	testkit.Equal(t, strings.Count(log, "\n"), 1, "more than one line: %s", log)
}

// A duplicate that waits meets an unreachable store in one round. Its replay has no error.
func TestErrorOfAnEarlierRoundIsNotLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		working := make(chan struct{})
		first := newService(t, store, createdOnce(working))
		second := newService(t, store, created, policy.Wait(time.Minute))
		var group sync.WaitGroup
		group.Go(func() { first.post(t.Context(), "k", payment) })
		synctest.Wait()
		group.Go(func() { second.post(t.Context(), "k", payment) })
		synctest.Wait()
		store.set(&store.acquire)(failUnapplied)
		advance(2 * time.Second)
		store.set(&store.acquire)(nil)
		close(working)
		group.Wait()
		if last := second.events.last(); last.Result != event.Replay || last.Err != nil {
			t.Errorf("the last event is %s with the error %v, want a replay without one", last.Result, last.Err)
		}
		if second.events.count(event.StoreError) == 0 {
			t.Error("no round met the unreachable store")
		}
	})
}

// Case 34: a client's text cannot forge a line of a log.
func TestControlCharactersNeverReachALogRaw(t *testing.T) {
	t.Parallel()
	evil := newPost(t.Context(), "k", payment)
	evil.URL.Path = "/payments\nlevel=ERROR msg=forged\x1b[2J\u2028"
	evil.Method = http.MethodPost
	bad := newPost(t.Context(), "k\nforged", payment)
	_, lines := logged(t, func(w http.ResponseWriter, r *http.Request) {
		failure.MarkRetryable(r.Context(), "taken\nforged")
		w.WriteHeader(http.StatusConflict)
	}, evil, bad)
	for _, line := range lines {
		for name, value := range line {
			if text, ok := value.(string); ok && strings.ContainsAny(text, "\n\r\x1b\u2028") {
				t.Errorf("%s is %q", name, text)
			}
		}
	}
	if len(lines) != 3 || lines[1]["reason"] != `taken\nforged` || lines[2]["result"] != "refused" {
		t.Errorf("got %v", lines)
	}
}

func TestEventsOfUnguardedAndRefusedRequests(t *testing.T) {
	t.Parallel()
	anonymous := newPost(t.Context(), "k", payment)
	anonymous.Header.Del("Authorization")
	keyless := newPost(t.Context(), "k", payment)
	keyless.Header.Del(core.KeyHeader)
	_, lines := logged(t, created, anonymous, keyless)
	if len(lines) != 2 || lines[0]["result"] != "refused" || lines[1]["result"] != "no_key" {
		t.Fatalf("got %v", lines)
	}
	testkit.Equal(t, lines[1]["idempotency_key"], "", "a hash of no key")
}

// An operator sees why every request gets a 401. The text of a sign-in may quote a token.
func TestLogSaysWhyAScopeFailed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	signIn := func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") == "" {
			return "", fmt.Errorf("no session for a-token: %w", context.DeadlineExceeded)
		}
		return "alice", nil
	}
	engine := engineFor(t, memstore.New(), core.ScopeByHost(signIn), core.WithObserver(event.Log(slog.New(slog.NewTextHandler(&out, nil)))))
	anonymous, homeless := newPost(t.Context(), "k", payment), newPost(t.Context(), "k", payment)
	anonymous.Header.Del("Authorization")
	homeless.Host = ""
	for r, want := range map[*http.Request]string{
		anonymous: `error="oncekey: the Scope failed: *fmt.wrapError: context deadline exceeded"`,
		homeless:  `error="oncekey: the Scope failed: the request's Host names no tenant"`,
	} {
		out.Reset()
		testkit.Serve(engine.Handler(http.HandlerFunc(created)), r)
		wantLine(t, out.String(), "result=refused", "code=principal_missing", want)
		if strings.Contains(out.String(), "a-token") {
			t.Errorf("a token is in the log: %s", &out)
		}
	}
}

func TestEventHashes(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	s.post(t.Context(), "k1", payment)
	s.post(t.Context(), "k2", payment)
	first, second := s.events.all[0], s.events.all[2]
	if first.KeyHash() == second.KeyHash() || len(first.KeyHash()) != 16 {
		t.Errorf("key hashes %q and %q", first.KeyHash(), second.KeyHash())
	}
	if first.ScopeHash() != second.ScopeHash() || len(first.ScopeHash()) != 16 {
		t.Errorf("scope hashes %q and %q", first.ScopeHash(), second.ScopeHash())
	}
	var zero event.Event
	testkit.Equal(t, zero.Endpoint()+zero.KeyHash()+zero.ScopeHash()+zero.Instance(), "", "an event without a subject is not empty")
}

// A client chooses the path of a request without a pattern, and how long it is.
func TestLongPathIsCut(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/payments/7":                      "POST /payments/*",
		strings.Repeat("/payments", 1000):  "POST " + strings.Repeat("/payments", 22) + "/...",
		"/" + strings.Repeat("x", 1000):    "POST /...",
		strings.Repeat("0123456789", 1000): "POST ...",
	} {
		subject := event.About(http.MethodPost, path, "alice", "k", "pod-1")
		if got := (&event.Event{Subject: &subject}).Endpoint(); got != want {
			t.Errorf("the endpoint is %q, want %q", got, want)
		}
	}
}

// The default logger is slog.Default() at the time of the event.
func TestLogObserverWithoutALogger(t *testing.T) { //nolint:paralleltest // it changes slog's default
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	observer := event.Log(nil)
	observer.Observe(context.Background(), event.Event{Result: event.ResponseLost, Err: errStoreDown, Attempt: 2})
	observer.Observe(context.Background(), event.Event{Result: event.Execute}) // Debug: not wanted
	wantLine(t, out.String(), "level=ERROR", "result=response_lost", `error="connection refused"`, "attempt=2")
}
