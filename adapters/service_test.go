package adapters_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

const (
	marker = "X-Idempotent-Replay"
	amount = `{"amount":1999,"currency":"EUR"}`
)

// service is a running program with its store, events and runs.
type service struct {
	http.Handler
	testing.TB

	engine *core.Engine
	store  *countingStore
	events *eventLog
	runs   atomic.Int64 // number of the handler's runs
}

// start runs the program on a router.
func (m mounting) start(t testing.TB, p program) *service {
	t.Helper()
	s := &service{TB: t, events: new(eventLog)}
	s.store = &countingStore{Store: p.store}
	if p.store == nil {
		s.store.Store = testkit.Patient{Inspectable: memstore.New()}
	}
	if p.scope == nil {
		p.scope = core.SharedScope
	}
	engine, err := core.New(s.store, p.scope, append([]core.Option{core.WithObserver(s.events)}, p.options...)...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Abort(engine) }) // background work ends with the test
	s.engine = engine
	s.Handler = m.mount(engine, p.completed(&s.runs))
	return s
}

// everywhere runs a program that guards its routes itself, at every path.
func everywhere(t *testing.T, guarded func(*core.Engine) http.Handler) *service {
	t.Helper()
	s := &service{TB: t, store: &countingStore{Store: testkit.Patient{Inspectable: memstore.New()}}, events: new(eventLog)}
	engine, err := core.New(s.store, core.SharedScope, core.WithObserver(s.events))
	testkit.Must(t, err)
	s.Handler = guarded(engine)
	return s
}

// declaring guards routes on a router, with one handler for all.
type declaring = func(e *core.Engine, handler http.HandlerFunc) http.Handler

// startDeclared runs a program that declares its routes itself. The handler counts its runs.
func startDeclared(t *testing.T, declare declaring) *service {
	t.Helper()
	var s *service
	s = everywhere(t, func(e *core.Engine) http.Handler {
		return declare(e, func(w http.ResponseWriter, r *http.Request) {
			s.runs.Add(1)
			created(w, r)
		})
	})
	return s
}

// onPrograms runs a test for each program.
func onPrograms(t *testing.T, programs map[string]declaring, test func(t *testing.T, s *service)) {
	t.Helper()
	testkit.Each(t, programs, func(t *testing.T, declare declaring) {
		test(t, startDeclared(t, declare))
	})
}

// bare runs the program without a guard.
func (m mounting) bare(r program) http.Handler { return m.mount(nil, r.completed(new(atomic.Int64))) }

// completed fills in the defaults and counts the runs.
func (r program) completed(runs *atomic.Int64) program {
	if r.method == "" {
		r.method = http.MethodPost
	}
	if r.pattern == "" {
		r.pattern = "/payments"
	}
	handler, native := r.handler, r.native
	if handler == nil {
		handler = created
	}
	r.handler = func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		handler(w, r)
	}
	if native != nil {
		r.native = func(c *gin.Context) {
			runs.Add(1)
			native(c)
		}
	}
	return r
}

// created is a handler that responds with 201 and a body.
func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/payments/17")
	w.WriteHeader(http.StatusCreated)
	w.Write([]byte(`{"id":17}`))
}

// answering is a handler that responds with a status.
func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// payment is a client's payment request, with changes.
func payment(key string, changes ...func(*http.Request)) *http.Request {
	return post("/payments", key, amount, changes...)
}

func post(target, key, body string, changes ...func(*http.Request)) *http.Request {
	r := testkit.Post(context.Background(), target, key, body)
	for _, change := range changes {
		change(r)
	}
	return r
}

// do sends a request and fails the test if a panic comes out.
func (s *service) do(r *http.Request) *httptest.ResponseRecorder {
	s.Helper()
	answer, panicked := s.try(r)
	if panicked != nil {
		s.Fatalf("the handler panicked: %v", panicked)
	}
	return answer
}

// try sends a request and returns the response and the handler's panic value.
func (s *service) try(r *http.Request) (answer *httptest.ResponseRecorder, panicked any) {
	answer = httptest.NewRecorder()
	defer func() { panicked = recover() }()
	s.ServeHTTP(answer, r)
	return answer, nil
}

// ran expects this number of runs so far.
func (s *service) ran(times int64) {
	s.Helper()
	testkit.Equal(s, s.runs.Load(), times, "runs of the handler")
}

// claimed expects this number of claims so far.
func (s *service) claimed(times int64) {
	s.Helper()
	testkit.Equal(s, s.store.acquires.Load(), times, "calls of the store")
}

// reported expects this number of events with a result, and the code in the first, if one is
// given.
func (s *service) reported(result event.Result, times int, code ...string) {
	s.Helper()
	all := s.events.of(result)
	if len(all) != times || len(code) > 0 && all[0].code != code[0] {
		s.Errorf("the events %q are %+v, want %d with the code %q, among %+v", result, all, times, code, s.events.all)
	}
}

// anyStatus is a status that gets does not look at.
const anyStatus = 0

// gets expects the status of a response, and its body, if one is given.
func (s *service) gets(answer *httptest.ResponseRecorder, status int, body ...string) {
	s.Helper()
	if status != anyStatus && answer.Code != status || len(body) > 0 && answer.Body.String() != body[0] {
		s.Errorf("got %d %q, want %d %q", answer.Code, answer.Body, status, body)
	}
}

// replays expects that the request gets a stored response.
func (s *service) replays(r *http.Request) *httptest.ResponseRecorder {
	s.Helper()
	before := s.runs.Load()
	answer := s.do(r)
	if !isReplay(answer) {
		s.Errorf("got %d without the marker, want a replay: %s", answer.Code, answer.Body)
	}
	s.ran(before)
	return answer
}

// runsAgain expects that this request makes the handler run.
func (s *service) runsAgain(r *http.Request) *httptest.ResponseRecorder {
	s.Helper()
	before := s.runs.Load()
	answer, _ := s.try(r)
	if isReplay(answer) {
		s.Error("got a replay, want a run")
	}
	s.ran(before + 1)
	return answer
}

// runsOnce expects that of many equal requests at once, one makes the handler run.
func (s *service) runsOnce(sent func() *http.Request) {
	s.Helper()
	testkit.Concurrently(50, func(int) { s.do(sent()) })
	s.ran(1)
}

func isReplay(answer *httptest.ResponseRecorder) bool {
	return slices.Equal(answer.Result().Header.Values(marker), []string{"true"})
}

// refuses expects a problem, and that the handler does not run.
func (s *service) refuses(r *http.Request, status int, code string) {
	s.Helper()
	before := s.runs.Load()
	s.problem(s.do(r), status, code)
	s.ran(before)
}

// problem expects a response that is a problem.
func (s *service) problem(answer *httptest.ResponseRecorder, status int, code string) {
	s.Helper()
	if p := problemIn(s, answer); answer.Code != status || p.Code != code {
		s.Errorf("got %d %s, want %d %q", answer.Code, answer.Body, status, code)
	}
}

// problemIn reads a problem, or returns the zero Problem.
func problemIn(t testing.TB, answer *httptest.ResponseRecorder) problem.Problem {
	t.Helper()
	var p problem.Problem
	if answer.Header().Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
			t.Errorf("%v in %s", err, answer.Body)
		}
	}
	return p
}

// equalHeaders compares headers as clients see them, without names that have no values.
func equalHeaders(a, b http.Header) bool {
	withoutValues := func(_ string, values []string) bool { return len(values) == 0 }
	a, b = a.Clone(), b.Clone()
	maps.DeleteFunc(a, withoutValues)
	maps.DeleteFunc(b, withoutValues)
	return maps.EqualFunc(a, b, slices.Equal)
}

// silent is a log entry that discards its text.
type silent struct{}

func (silent) Write(int, int, http.Header, time.Duration, any) {}
func (silent) Panic(any, []byte)                               {}
