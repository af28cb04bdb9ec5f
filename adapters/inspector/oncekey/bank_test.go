package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// duplicates is the --concurrency of the tests.
const duplicates = 4

// bank is a server for verify. It counts its effects, and holds a request that is sent with others at the same time until all
// of them have met it.
type bank struct {
	mu       sync.Mutex
	changed  *sync.Cond
	effects  int
	requests int
	running  map[string]int // handlers, by key
	done     map[string]int // requests that were responded to, by key
	constant bool           // each payment gets the same body
}

// dialect is a protocol of which a bank keeps every rule.
type dialect struct {
	options []core.Option
	policy  []policy.Option
	// around stands outside the guard. Optional.
	around func(http.Handler) http.Handler
}

// dialects are those of verify.
var dialects = map[string]func() dialect{
	"draft": func() dialect { return dialect{policy: []policy.Option{policy.Required(true)}} },
	"acp": func() dialect {
		return dialect{
			options: []core.Option{core.WithReplayHeader("Idempotent-Replayed"), core.WithProblemWriter(writeACP)},
			policy:  []policy.Option{policy.Required(true)}, around: echoing,
		}
	},
	"ucp": func() dialect {
		return dialect{
			options: []core.Option{core.WithProblemWriter(writeUCP)},
			policy:  []policy.Option{policy.Required(true), policy.ExactBytes(true)},
		}
	},
	"stripe": func() dialect {
		return dialect{
			options: []core.Option{core.WithReplayHeader("Idempotent-Replayed"), core.WithProblemWriter(writeStripe)},
			policy:  []policy.Option{policy.Required(false), policy.Keep("500"), policy.Release("400"), policy.IncludeHeaders("X-Endpoint")},
			around:  onePath,
		}
	},
}

func writeACP(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	codes := map[string]string{problem.KeyMissing: "idempotency_key_required", problem.KeyReused: "idempotency_conflict", problem.InProgress: "idempotency_in_flight"}
	writeBody(w, p.Status, map[string]string{"type": "invalid_request", "code": codes[p.Code], "message": p.Title})
}

func writeUCP(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	if p.Code == problem.KeyReused {
		p.Status = http.StatusConflict
	}
	writeBody(w, p.Status, map[string]string{"code": p.Code, "content": p.Title})
}

func writeStripe(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	kind := "invalid_request_error"
	if p.Code == problem.KeyReused {
		p.Status, kind = http.StatusBadRequest, "idempotency_error"
	}
	writeBody(w, p.Status, map[string]any{"error": map[string]string{"type": kind, "message": p.Title}})
}

func writeBody(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// echoing sends the request's key back.
func echoing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get(core.KeyHeader); key != "" {
			w.Header().Set(core.KeyHeader, key)
		}
		next.ServeHTTP(w, r)
	})
}

// onePath makes the endpoint a parameter of the request, and not a part of its key.
func onePath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Endpoint", r.URL.Path)
		r.URL.Path = "/payments"
		next.ServeHTTP(w, r)
	})
}

// openBank starts a server that speaks a dialect, with a mistake or without.
func openBank(t *testing.T, of dialect, planted mistake) (*bank, *httptest.Server) {
	t.Helper()
	b := &bank{running: make(map[string]int), done: make(map[string]int)}
	b.changed = sync.NewCond(&b.mu)
	scope := core.ScopeBy(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil })
	engine, err := core.New(memstore.New(), scope, append(of.options, core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))...)
	testkit.Must(t, err)
	bare := http.Handler(http.HandlerFunc(b.pay))
	endpoint := engine.Handler(bare, of.policy...)
	if of.around != nil {
		endpoint = of.around(endpoint)
	}
	if planted != nil {
		endpoint = planted(b, endpoint, bare)
	}
	mux := http.NewServeMux()
	mux.Handle("/payments", b.counting(endpoint))
	mux.Handle("/refunds", b.counting(endpoint))
	mux.HandleFunc("/effects", func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		fmt.Fprint(w, b.effects)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return b, server
}

// counting counts requests and responses.
func (b *bank) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.add(func() { b.requests++ })
		if probeOf(r) == "cut-before-response" {
			b.putInOrder(r)
		}
		next.ServeHTTP(w, r)
		key := r.Header.Get(core.KeyHeader)
		b.add(func() { b.done[key]++ })
	})
}

// putInOrder lets a request whose client is gone run before its retry, which may arrive first.
func (b *bank) putInOrder(r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the server notices a closed connection after the body
	r.Body = io.NopCloser(bytes.NewReader(body))
	late := false
	notify := context.AfterFunc(r.Context(), func() { b.add(func() {}) })
	timer := time.AfterFunc(30*time.Second, func() { b.add(func() { late = true }) })
	defer notify()
	defer timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for r.Context().Err() == nil && b.done[r.Header.Get(core.KeyHeader)] == 0 && !late {
		b.changed.Wait()
	}
}

func (b *bank) add(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	b.changed.Broadcast()
}

// pay is the operation.
func (b *bank) pay(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var order struct{ Amount json.Number }
	text, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(text, &order) != nil {
		writeBody(w, http.StatusBadRequest, map[string]string{"error_text": "no JSON"})
		return
	}
	if order.Amount == "13" {
		writeBody(w, http.StatusInternalServerError, map[string]string{"error_text": "unlucky"})
		return
	}
	failure.MarkExecuted(r.Context())
	number := 0
	b.add(func() {
		b.effects++
		number = b.effects
	})
	b.meetOthers(r)
	if b.constant {
		number = 0
	}
	writeBody(w, http.StatusCreated, map[string]int{"payment": number})
}

// meetOthers waits until each request that was sent at the same time is in the handler too, or has its response.
func (b *bank) meetOthers(r *http.Request) {
	others := map[string]int{"duplicates": duplicates, "other-payload-at-once": 2}[probeOf(r)]
	key := r.Header.Get(core.KeyHeader)
	late := time.AfterFunc(30*time.Second, func() { b.add(func() { others = 0 }) })
	defer late.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[key]++
	b.changed.Broadcast()
	for b.running[key]+b.done[key] < others {
		b.changed.Wait()
	}
}

// probeOf is the probe that a request belongs to.
func probeOf(r *http.Request) string {
	_, name, _ := strings.Cut(r.UserAgent(), "oncekey-verify/")
	return name
}
