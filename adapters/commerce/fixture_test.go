package commerce_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"go.uber.org/goleak"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/adapters/commerce"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// endpoint is an operation of a protocol. Its pattern is written for net/http and chi.
type endpoint struct {
	method, pattern string
	handler         http.HandlerFunc
	options         []policy.Option
}

// mounting serves endpoints on a router.
type mounting func(engine *core.Engine, base policy.Policy, all []endpoint) http.Handler

// routers are the ways to serve endpoints, as their documentation shows them.
var routers = map[string]mounting{
	"net_http": func(engine *core.Engine, base policy.Policy, all []endpoint) http.Handler {
		mux := http.NewServeMux()
		for _, e := range all {
			mux.Handle(e.method+" "+e.pattern, engine.Handler(e.handler, e.with(base)...))
		}
		return mux
	},
	"chi": func(engine *core.Engine, base policy.Policy, all []endpoint) http.Handler {
		r, idem := chi.NewRouter(), idemchi.New(engine)
		for _, e := range all {
			r.With(idem.Policy(e.with(base)...)).Method(e.method, e.pattern, e.handler)
		}
		return r
	},
	"gin": func(engine *core.Engine, base policy.Policy, all []endpoint) http.Handler {
		r, idem := gin.New(), idemgin.New(engine)
		r.ContextWithFallback = true
		for _, e := range all {
			pattern := strings.NewReplacer("{", ":", "}", "").Replace(e.pattern)
			r.Handle(e.method, pattern, idem.Policy(e.with(base)...), gin.WrapF(e.handler))
		}
		return r
	},
}

func (e endpoint) with(base policy.Policy) []policy.Option {
	return append([]policy.Option{policy.From(base)}, e.options...)
}

// shop serves a protocol on one router, and counts the runs of its handlers.
type shop struct {
	testing.TB
	http.Handler
	runs atomic.Int64
}

// starter starts a shop for a test, on the router and with the profile of onRouters.
type starter func(t testing.TB, endpoints ...endpoint) *shop

// onRouters runs a test on each router.
func onRouters(t *testing.T, profile commerce.Profile, test func(t *testing.T, start starter)) {
	t.Helper()
	for name, mount := range routers {
		t.Run(name, func(t *testing.T) {
			test(t, func(t testing.TB, endpoints ...endpoint) *shop {
				return open(t, profile, memstore.New(), mount, endpoints)
			})
		})
	}
}

func open(t testing.TB, profile commerce.Profile, store storage.Store, mount mounting, endpoints []endpoint, more ...core.Option) *shop {
	t.Helper()
	client := core.ScopeBy(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil })
	options := append(append(profile.Options(), core.WithObserver(event.Log(slog.New(slog.DiscardHandler)))), more...)
	engine, err := core.New(store, client, options...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Abort(engine) })
	s := &shop{TB: t}
	for i := range endpoints {
		own := endpoints[i].handler
		endpoints[i].handler = func(w http.ResponseWriter, r *http.Request) {
			s.runs.Add(1)
			own(w, r)
		}
	}
	s.Handler = mount(engine, profile.Policy, endpoints)
	return s
}

// create makes another checkout in each run.
func create(status int) http.HandlerFunc {
	var made atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"id":"checkout_%d","status":"ready_for_payment"}`, made.Add(1))
	}
}

// change changes a request.
type change func(*http.Request)

func header(name, value string) change {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func without(name string) change { return func(r *http.Request) { r.Header.Del(name) } }

func request(method, path, key, body string, changes ...change) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer agent")
	r.Header.Set("API-Version", "2026-04-17")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func post(path, key, body string, changes ...change) *http.Request {
	return request(http.MethodPost, path, key, body, changes...)
}

// do sends a request. A panic of a handler ends as a server's middleware ends it, with 500.
func (s *shop) do(r *http.Request) (w *httptest.ResponseRecorder) {
	w = httptest.NewRecorder()
	defer func() {
		if recover() != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}()
	s.ServeHTTP(w, r)
	return w
}

// runsOnce expects that a request runs a handler, and returns its response.
func (s *shop) runsOnce(r *http.Request) *httptest.ResponseRecorder {
	s.Helper()
	before := s.runs.Load()
	w := s.do(r)
	if ran := s.runs.Load() - before; ran != 1 {
		s.Errorf("%s %s under %q ran %d handlers, want one; got %d %s", r.Method, r.URL, r.Header["Idempotency-Key"], ran, w.Code, w.Body)
	}
	return w
}

// answers expects a response with a status and a body, and that no handler runs.
func (s *shop) answers(r *http.Request, status int, body string) *httptest.ResponseRecorder {
	s.Helper()
	before := s.runs.Load()
	w := s.do(r)
	if w.Code != status || w.Body.String() != body {
		s.Errorf("%s %s under %q got %d %s\nwant %d %s", r.Method, r.URL, r.Header["Idempotency-Key"], w.Code, w.Body, status, body)
	}
	testkit.Equal(s, s.runs.Load()-before, 0, "runs of %s %s", r.Method, r.URL)
	return w
}

// meets sends a request while another one runs in a handler, which ends afterwards.
func (s *shop) meets(first *http.Request, began <-chan struct{}, end chan<- struct{}, then func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.do(first)
	}()
	<-began
	then()
	end <- struct{}{}
	<-ended
}

// slow is a handler that runs until it is told to end.
func slow(then http.HandlerFunc) (handler http.HandlerFunc, began chan struct{}, end chan struct{}) {
	began, end = make(chan struct{}), make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-end
		then(w, r)
	}, began, end
}

// later moves the fake clock of a synctest bubble.
func later(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // in a bubble

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // debug mode prints every route
	goleak.VerifyTestMain(m)
}
