package examples_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/trace"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/adapters/openapi"
	idemotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
	"github.com/oncekey/oncekey/policy/tablefile"
)

// The functions of this file contain the documentation's snippets, line by line, and run
// them.

func userID(*http.Request) (string, error) { return "alice", nil }

func authenticate(next http.Handler) http.Handler { return next }

func pay(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

func update(http.ResponseWriter, *http.Request) {}

func list(http.ResponseWriter, *http.Request) {}

func refund(http.ResponseWriter, *http.Request) {}

// payTwice sends a request and its retry, and wants one run and a replay.
func payTwice(t *testing.T, handler http.Handler, path string) {
	t.Helper()
	for try, want := range []string{"", "true"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{"amount":1}`))
		r.Header.Set(core.KeyHeader, "k")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code/100 != 2 || w.Header().Get("X-Idempotent-Replay") != want {
			t.Errorf("try %d of %s got %d %v", try+1, path, w.Code, w.Header())
		}
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	var router http.Handler
	start := func() error {
		engine, err := core.New(memstore.New(), core.ScopeBy(userID)) // whose key is it? nobody can forget to say
		if err != nil {
			return err
		}
		idem := idemchi.New(engine)

		r := chi.NewRouter()
		r.Use(middleware.Recoverer, authenticate) // both outside the guard
		r.With(idem.Policy(
			policy.TTLHours(48),
			policy.LockTTL(time.Minute),
			policy.ExcludeFields("clientTimestamp", "requestNonce"),
		)).Post("/payments", pay)
		router = r
		return nil
	}
	testkit.Must(t, start())
	payTwice(t, router, "/payments")
}

type API struct {
	Pay    http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp,requestNonce"`
	Update http.HandlerFunc `route:"PATCH /members/{id}" idempotency:"Required=false"`
	List   http.HandlerFunc `route:"GET /members"`
}

// The table file is that of docs/policy.md, too.
func TestDeclaredInOnePlace(t *testing.T) {
	files := readPage(t, "../docs/policy.md").blocks("yaml")
	t.Chdir(t.TempDir())
	if len(files) != 1 || os.WriteFile("idempotency.yaml", []byte(files[0]), 0o600) != nil {
		t.Fatalf("policy.md has %d table files, or the file cannot be written", len(files))
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	testkit.Must(t, err)
	r, idem := chi.NewRouter(), idemchi.New(engine)
	declare := func() error {
		table, err := tablefile.Read("idempotency.yaml") // or policy.NewTable(policy.Row("POST /refunds", policy.TTLHours(48)))
		if err != nil {
			return err
		}
		r.Use(authenticate, idem.Table(table))
		err = idemchi.Mount(r, idem, API{Pay: pay, Update: update, List: list})
		if err != nil {
			return err
		}
		r.Post("/refunds", refund)

		report := idemchi.Audit(r, idem, table) // when all routes are declared
		for _, warning := range report.Warnings {
			slog.Warn("unguarded", "route", warning) // a POST or PATCH
		}
		return report.Err() // a row that matches no route
	}
	testkit.Must(t, declare())
	payTwice(t, r, "/payments")
	payTwice(t, r, "/refunds")
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	document := []byte(`{"openapi": "3.1.0", "info": {"title": "payments", "version": "1"}}`)
	describe := func() error {
		declared, err := policy.Declarations(API{})
		if err != nil {
			return err
		}
		document, err = openapi.Merge(document, declared) // the text of openapi.json, and the new text
		return err
	}
	testkit.Must(t, describe())
	if !gjson.GetBytes(document, "paths./payments.post.responses.422").Exists() {
		t.Errorf("the document does not describe the problems of POST /payments: %s", document)
	}
}

// Receipt is the result of a charge.
type Receipt struct{ Charged int }

type order struct{ Amount int }

type providerStub struct{ calls int }

func (p *providerStub) Charge(_ context.Context, key string, o order) (Receipt, error) {
	if p.calls++; key == "" {
		return Receipt{}, http.ErrNoLocation
	}
	return Receipt{o.Amount}, nil
}

func TestCallAFunction(t *testing.T) {
	t.Parallel()
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	ctx, provider := t.Context(), &providerStub{}
	message := struct {
		ID    string
		Order order
	}{"m-1", order{100}}
	charge := func() (Receipt, core.Info, error) {
		call := core.Call{Scope: "orders", Name: "charge", Key: message.ID, Input: message.Order}
		receipt, info, err := core.Do(ctx, engine, call, func(ctx context.Context) (Receipt, error) {
			return provider.Charge(ctx, core.DeriveKey(ctx, "charge"), message.Order)
		})
		return receipt, info, err
	}
	for try := range 2 {
		if receipt, info, err := charge(); err != nil || receipt.Charged != 100 || info.Replayed != (try == 1) {
			t.Errorf("try %d got %+v, %+v, %v", try+1, receipt, info, err)
		}
	}
	testkit.Equal(t, provider.calls, 1, "calls of the provider")
}

func TestCallOthers(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { keys <- r.Header.Get(core.KeyHeader) }))
	defer server.Close()
	outer, url := t.Context(), server.URL
	send := func(ctx context.Context) error {
		transport, err := httpclient.New(http.DefaultTransport, httpclient.MaxAttempts(8), httpclient.MaxTime(2*time.Minute))
		if err != nil {
			return err
		}
		client := &http.Client{Transport: transport}
		named := httpclient.WithCall(ctx, "line-2") // separates two calls to one URL within one outer request
		request, err := http.NewRequestWithContext(named, http.MethodPost, url, strings.NewReader(`{"amount":1999}`))
		if err != nil {
			return err
		}
		response, err := client.Do(request) // the response, or an *httpclient.AttemptsError
		if err == nil {
			err = response.Body.Close()
		}
		client.CloseIdleConnections()
		return err
	}
	if err := send(outer); err != nil || <-keys == "" {
		t.Errorf("the call returned %v, or had no key", err)
	}
}

// The tests of pgstore run transactions; this test only declares the route.
func TestInOneTransaction(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	testkit.Must(t, err)
	defer pool.Close()
	engine, err := core.New(pgstore.New(pool), core.ScopeBy(userID))
	testkit.Must(t, err)
	r, idem := chi.NewRouter(), idemchi.New(engine)
	r.With(idem.Policy(pgstore.Transactional())).Post("/transfers", func(w http.ResponseWriter, r *http.Request) {
		tx, err := pgstore.Tx(r.Context()) // a pgx.Tx of the store's pool; the engine commits it, with the response
		if err == nil {
			_, err = tx.Exec(r.Context(), "INSERT INTO transfers (id, amount) VALUES ($1, $2)", core.DeriveKey(r.Context(), "transfer"), 100)
		}
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable) // rolls back, and releases the key
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	if routes := r.Routes(); len(routes) != 1 || routes[0].Pattern != "/transfers" {
		t.Errorf("the routes are %+v", routes)
	}
}

// The log at Info is silent about a run and its replay, unless a program asks for their lines.
func TestLineForEachRequest(t *testing.T) { //nolint:paralleltest // it changes slog's default
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	silent, err := core.New(memstore.New(), core.ScopeBy(userID))
	testkit.Must(t, err)
	payTwice(t, silent.Handler(http.HandlerFunc(pay)), "/payments")
	if out.Len() > 0 {
		t.Errorf("logged %s", out.String())
	}
	observer := event.Log(nil, event.LogAt(slog.LevelInfo, event.Completed, event.Failed, event.Replay)) // a line for each request
	engine, err := core.New(memstore.New(), core.ScopeBy(userID), core.WithObserver(observer))
	if err != nil {
		t.Fatal(err)
	}
	payTwice(t, engine.Handler(http.HandlerFunc(pay)), "/payments")
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), "result=completed") || !strings.Contains(out.String(), "result=replay") {
		t.Errorf("logged %s", out.String())
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	var guard *core.Engine
	measure := func() error {
		observer, err := idemotel.New(idemotel.WithNext(event.Log(nil))) // the global providers; the log continues
		if err != nil {
			return err
		}
		engine, err := core.New(store, core.ScopeBy(userID), core.WithObserver(observer))
		guard = engine
		return err
	}
	testkit.Must(t, measure())
	payTwice(t, guard.Handler(http.HandlerFunc(pay)), "/payments")
}

// The first run's trace is in its record.
func TestNameTheTrace(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	observer := event.Log(slog.New(slog.DiscardHandler))
	engine, err := core.New(store, core.ScopeBy(userID), core.WithObserver(observer), core.WithTrace(idemotel.TraceOf))
	testkit.Must(t, err)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(`{"amount":1}`))
	r.Header.Set(core.KeyHeader, "k")
	engine.Handler(http.HandlerFunc(pay)).ServeHTTP(httptest.NewRecorder(), r)
	page, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1})
	if want := span.TraceID().String() + "-" + span.SpanID().String(); err != nil || len(page.Entries) != 1 || page.Entries[0].Origin.Trace != want {
		t.Errorf("the store has %+v, %v, want the trace %s", page, err, want)
	}
}
