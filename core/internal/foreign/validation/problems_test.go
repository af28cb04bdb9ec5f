package validation_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// clientCodes are the codes that a client of a correct service can get. wrong_setup
// reports a mistake to the service's authors.
func clientCodes() []string {
	return slices.DeleteFunc(problem.Codes(), func(code string) bool { return code == problem.WrongSetup })
}

func TestEveryCodeIsDescribed(t *testing.T) {
	t.Parallel()
	var described []string
	for _, some := range codes(t, operation(t, document(t, policy.Row("POST /a", everything)), "POST", "/a")) {
		described = append(described, some...)
	}
	slices.Sort(described)
	if want := clientCodes(); !slices.Equal(described, want) {
		t.Errorf("described are %v\nwant          %v", described, want)
	}
}

// The engine's real responses, code by code, match the document.
func TestRealProblemsAreAsDescribed(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(maps.Keys(provocations)), clientCodes(); !slices.Equal(got, want) {
		t.Fatalf("provoked are %v\nwant         %v", got, want)
	}
	doc := document(t, policy.Row("POST /payments", everything))
	described := operation(t, doc, "POST", "/payments")
	for code, provoke := range provocations {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			var recorded *httptest.ResponseRecorder
			synctest.Test(t, func(t *testing.T) { recorded = provoke(setup{t, nil}) }) // leaves the bubble: a response
			var body map[string]any
			if err := json.Unmarshal(recorded.Body.Bytes(), &body); err != nil {
				t.Fatalf("%v in %s", err, recorded.Body)
			}
			if body["code"] != code {
				t.Fatalf("provoked %s", recorded.Body)
			}
			response := described.Responses.Status(recorded.Code)
			if response == nil {
				t.Fatalf("status %d is not described", recorded.Code)
			}
			media := response.Value.Content.Get(recorded.Header().Get("Content-Type"))
			if media == nil {
				t.Fatalf("%s is not described", recorded.Header().Get("Content-Type"))
			}
			example := media.Examples[code].Value.Value.(map[string]any)
			for name, value := range example {
				testkit.Equal(t, body[name], value, "the example's %s", name)
			}
			visit := func(body map[string]any) error {
				return media.Schema.Value.VisitJSON(body, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation())
			}
			if err := visit(body); err != nil {
				t.Errorf("%s: %v", recorded.Body, err)
			}
			for _, wrong := range []map[string]any{{"code": "teapot"}, {"status": 418}, {"title": nil}, {"error": 7}} {
				changed := maps.Clone(body)
				maps.Copy(changed, wrong)
				if visit(changed) == nil {
					t.Errorf("the schema lets %v through", wrong)
				}
			}
			if retry := recorded.Header().Get("Retry-After"); retry != "" {
				header := response.Value.Headers["Retry-After"]
				if header == nil {
					t.Fatal("Retry-After is not described")
				}
				seconds, err := strconv.ParseFloat(retry, 64)
				if err != nil || header.Value.Schema.Value.VisitJSON(seconds) != nil {
					t.Errorf("Retry-After is %q, and the document says otherwise", retry)
				}
			}
		})
	}
}

// setup is a test, and the options of its engine.
type setup struct {
	*testing.T
	options []core.Option
}

// program is one guarded handler.
type program struct {
	http.Handler
	engine *core.Engine
}

func start(t setup, store storage.Store, scope core.Scope, handler http.HandlerFunc, opts ...policy.Option) program {
	t.Helper()
	engine, err := core.New(store, scope, append(t.options, core.WithDiffers(), core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Abort(engine) })
	return program{engine.Handler(handler, opts...), engine}
}

func (p program) post(key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set(core.KeyHeader, key)
	}
	return p.send(r)
}

func (p program) send(r *http.Request) *httptest.ResponseRecorder {
	recorded := httptest.NewRecorder()
	p.ServeHTTP(recorded, r)
	return recorded
}

// provocations make the engine respond with each of its codes.
var provocations = map[string]func(t setup) *httptest.ResponseRecorder{
	problem.PrincipalMissing: func(t setup) *httptest.ResponseRecorder {
		anonymous := func(*http.Request) (string, error) { return "", errors.New("who?") }
		return start(t, memstore.New(), anonymous, created).post("k", "{}")
	},
	problem.KeyMissing: func(t setup) *httptest.ResponseRecorder {
		return start(t, memstore.New(), core.SharedScope, created).post("", "{}")
	},
	problem.KeyInvalid: func(t setup) *httptest.ResponseRecorder {
		return start(t, memstore.New(), core.SharedScope, created).post("a,b", "{}")
	},
	problem.BodyTooLarge: func(t setup) *httptest.ResponseRecorder {
		return start(t, memstore.New(), core.SharedScope, created, policy.MaxRequestBytes(1)).post("k", "{}")
	},
	problem.BodyUnreadable: func(t setup) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/payments", io.NopCloser(iotest.ErrReader(errors.New("cut off"))))
		r.Header.Set(core.KeyHeader, "k")
		return start(t, memstore.New(), core.SharedScope, created).send(r)
	},
	problem.InProgress: func(t setup) *httptest.ResponseRecorder {
		var p program
		var duplicate *httptest.ResponseRecorder
		p = start(t, memstore.New(), core.SharedScope, func(http.ResponseWriter, *http.Request) { duplicate = p.post("k", "{}") })
		p.post("k", "{}")
		return duplicate
	},
	problem.KeyReused: func(t setup) *httptest.ResponseRecorder {
		p := start(t, memstore.New(), core.SharedScope, created)
		p.post("k", `{"amount":1}`)
		return p.post("k", `{"amount":2}`)
	},
	problem.NotReplayable: func(t setup) *httptest.ResponseRecorder {
		p := start(t, memstore.New(), core.SharedScope, func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() })
		p.post("k", "{}")
		return p.post("k", "{}")
	},
	problem.KeyExpired: func(t setup) *httptest.ResponseRecorder {
		store := &brokenStore{Store: memstore.New()}
		p := start(t, store, core.SharedScope, created, policy.RememberHours(720))
		p.post("k", "{}")
		store.expires = true
		return p.post("k", "{}")
	},
	problem.OutcomeUnknown: func(t setup) *httptest.ResponseRecorder {
		store := &brokenStore{Store: memstore.New()}
		p := start(t, store, core.SharedScope, created, policy.OnAbandoned(policy.Refuse))
		p.post("k", "{}")
		store.abandons = true
		return p.post("k", "{}")
	},
	problem.ScopeLimited: func(t setup) *httptest.ResponseRecorder {
		var p program
		var refused *httptest.ResponseRecorder
		t.options = append(t.options, core.WithScopeLimit(core.ScopeLimit{InFlight: 1}))
		p = start(t, memstore.New(), core.SharedScope, func(http.ResponseWriter, *http.Request) { refused = p.post("k2", "{}") })
		p.post("k1", "{}")
		return refused
	},
	problem.StoreUnavailable: func(t setup) *httptest.ResponseRecorder {
		return start(t, testkit.Failing(memstore.New(), errors.New("connection refused"), testkit.Acquire), core.SharedScope, created).post("k", "{}")
	},
	problem.ShuttingDown: func(t setup) *httptest.ResponseRecorder {
		p := start(t, memstore.New(), core.SharedScope, created)
		if err := p.engine.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		return p.post("k", "{}")
	},
	problem.HandlerCancelled: func(t setup) *httptest.ResponseRecorder {
		waits := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		return start(t, memstore.New(), core.SharedScope, waits, policy.MaxRun(time.Second)).post("k", "{}")
	},
	problem.HandlerFailed: func(t setup) *httptest.ResponseRecorder {
		waits := func(_ http.ResponseWriter, r *http.Request) {
			failure.MarkExecuted(r.Context())
			<-r.Context().Done()
		}
		return start(t, memstore.New(), core.SharedScope, waits, policy.MaxRun(time.Second)).post("k", "{}")
	},
	problem.NotConfirmed: func(t setup) *httptest.ResponseRecorder {
		store := &transactor{memstore.New(), errors.New("connection reset")}
		return start(t, store, core.SharedScope, created, policy.Transactional(true)).post("k", "{}")
	},
	problem.RolledBack: func(t setup) *httptest.ResponseRecorder {
		store := &transactor{memstore.New(), storage.ErrRolledBack}
		return start(t, store, core.SharedScope, created, policy.Transactional(true)).post("k", "{}")
	},
}

// brokenStore is a store with only abandoned or expired keys.
type brokenStore struct {
	storage.Store
	abandons, expires bool
}

func (s *brokenStore) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	lease, record, err := s.Store.Acquire(ctx, request)
	if s.abandons && record != nil {
		record.State, record.LeaseLeft = storage.InProgress, 0
	}
	if s.expires && record != nil {
		record = &storage.Record{State: storage.Expired, Fingerprint: record.Fingerprint, Digest: record.Digest, Attempt: record.Attempt, Status: record.Status}
	}
	return lease, record, err
}

// transactor is a store whose commits fail.
type transactor struct {
	storage.Store
	refusal error
}

func (s *transactor) BeginTransaction(ctx context.Context, _ storage.Lease) (context.Context, storage.Transaction, error) {
	return ctx, s, nil
}

func (s *transactor) Commit(context.Context, storage.Lease, storage.Result) error { return s.refusal }

func (*transactor) Rollback(context.Context) error { return nil }
