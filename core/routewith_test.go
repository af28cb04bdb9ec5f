package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A route of another protocol writes its own problems: the one of a refused request, and the
// one that is stored in place of a handler's lost response.
func TestRouteWritesItsOwnProblems(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	route, err := s.RouteWith(core.Declaration{WriteProblem: func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("own " + p.Code))
	}})
	testkit.Must(t, err)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		failure.MarkExecuted(r.Context())
		panic("after the side effect")
	})
	send := func(key string) (w *httptest.ResponseRecorder) {
		w = httptest.NewRecorder()
		defer func() { _ = recover() }()
		s.Serve(w, newPost(t.Context(), key, payment), route, handler)
		return w
	}
	send("k") // panics
	for key, want := range map[string]string{"": "own key_invalid", "k": "own handler_failed"} {
		if w := send(key); w.Code != http.StatusTeapot || w.Body.String() != want {
			t.Errorf("the key %q got %d %q, want %q", key, w.Code, w.Body, want)
		}
	}
	testkit.Equal(t, s.ReplayHeader(), "X-Idempotent-Replay", "ReplayHeader")
}

// A route of another protocol carries the problem as the engine writes it, with the names
// and the page of the program.
func TestRouteCarriesProblemsOfTheEngine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts []core.Option
		want string
	}{
		"RFC 9457":      {nil, `"error":"X-Key header is required"`},
		"of a function": {[]core.Option{core.WithProblemWriter(writeCode)}, "code key_missing"},
		"after a panic": {[]core.Option{core.WithProblemWriter(func(http.ResponseWriter, *http.Request, problem.Problem) { panic("no form") })}, `"code":"key_missing"`},
	} {
		e := engineOf(t, memstore.New(), append(test.opts, core.WithKeyHeader("X-Key", "X-Old-Key"), core.WithObserver(new(events)))...)
		testkit.EqualSlices(t, e.KeyHeaders(), []string{"X-Key", "X-Old-Key"}, "KeyHeaders")
		route, err := e.RouteWith(core.Declaration{WriteProblem: func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
			_, _ = w.Write([]byte("carried: "))
			e.WriteProblem(w, r, p)
		}})
		testkit.Must(t, err)
		w := httptest.NewRecorder()
		e.Serve(w, newPost(t.Context(), "k", payment), route, http.HandlerFunc(created))
		if got := w.Body.String(); !strings.HasPrefix(got, "carried: ") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func writeCode(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	_, _ = w.Write([]byte("code " + p.Code))
}

// A route names the line of the program that declares it, or the one that an adapter gives.
func TestPlaceOfADeclaration(t *testing.T) {
	t.Parallel()
	engine := engineOf(t, memstore.New())
	_, _, line, _ := runtime.Caller(0)
	_ = engine.Handler(http.HandlerFunc(created))
	_ = engine.MustRoute()
	_, _ = engine.Route()
	_, _ = engine.RouteWith(core.Declaration{})
	_, _ = engine.RouteWith(core.Declaration{Place: "shop/main.go:7"})
	want := []string{"shop/main.go:7"}
	for i := 4; i > 0; i-- {
		want = append([]string{"core/routewith_test.go:" + strconv.Itoa(line+i)}, want...)
	}
	for i, route := range engine.Routes() {
		testkit.Equal(t, route.DeclaredAt(), want[i], "route %d is declared at", i)
	}
}

// Case 65: an error or a panic names a nil argument of a declaration.
func TestNilIsNamedAtDeclaration(t *testing.T) {
	t.Parallel()
	var noEngine *core.Engine
	engine := engineOf(t, memstore.New())
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	function := func(context.Context) (int, error) { return 1, nil }
	for _, row := range []struct {
		name    string
		declare func() error
		names   string
	}{
		{"engine of Route", func() error { return failed(noEngine.Route()) }, "the Engine is nil"},
		{"engine of MustRoute", func() error { noEngine.MustRoute(); return nil }, "the Engine is nil"},
		{"engine of Handler", func() error { noEngine.Handler(handler); return nil }, "the Engine is nil"},
		{"option of Route", func() error { return failed(engine.Route(policy.TTLHours(1), nil)) }, "option 2 of the route"},
		{"option of Handler", func() error { engine.Handler(handler, nil); return nil }, "option 1 of the route"},
		{"handler", func() error { engine.Handler(nil); return nil }, "nil http.Handler"},
		{"handler function", func() error { engine.Handler(http.HandlerFunc(nil)); return nil }, "nil http.Handler"},
		{"context of Do", func() error {
			var none context.Context
			_, _, err := core.Do(none, engine, core.Call{Scope: "s", Name: "n", Key: "k"}, function)
			return err
		}, "nil context"},
		{"engine of Do", func() error {
			_, _, err := core.Do(t.Context(), noEngine, core.Call{Scope: "s", Name: "n", Key: "k"}, function)
			return err
		}, "nil Engine"},
		{"function of Do", func() error {
			_, _, err := core.Do[int](t.Context(), engine, core.Call{Scope: "s", Name: "n", Key: "k"}, nil)
			return err
		}, "nil function"},
		{"route of Do", func() error {
			_, _, err := core.Do(t.Context(), engine, core.Call{Scope: "s", Name: "n", Key: "k", Route: &core.Route{}}, function)
			return err
		}, "Call.Route"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if text := failureOf(row.declare); !strings.Contains(text, row.names) || !strings.HasPrefix(text, "oncekey: ") {
				t.Errorf("got %q, want it to name %q", text, row.names)
			}
		})
	}
}

// failureOf returns the error or the panic of a declaration.
func failureOf(declare func() error) (text string) {
	defer func() {
		switch panicked := recover().(type) {
		case nil:
		case error:
			text = panicked.Error()
		case string:
			text = panicked
		}
	}()
	if err := declare(); err != nil {
		return err.Error()
	}
	return "no error"
}

// Case 65: a nil argument of Serve is not dereferenced, and a Route that no engine has made
// guards nothing. The response names the argument.
func TestNilInARequest(t *testing.T) {
	t.Parallel()
	engine := engineOf(t, memstore.New())
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, row := range []struct {
		name   string
		engine *core.Engine
		route  *core.Route
		next   http.Handler
	}{
		{"Engine", nil, engine.MustRoute(), handler},
		{"Route", engine, nil, handler},
		{"Route", engine, new(core.Route), handler},
		{"http.Handler", engine, engine.MustRoute(), nil},
		{"http.Handler", engine, engine.MustRoute(), http.HandlerFunc(nil)},
	} {
		response := httptest.NewRecorder()
		row.engine.Serve(response, newPost(t.Context(), "k", "{}"), row.route, row.next)
		if response.Code != http.StatusInternalServerError || !strings.Contains(response.Body.String(), "no "+row.name) {
			t.Errorf("got %d %q, want 500 that names the %s", response.Code, response.Body, row.name)
		}
	}
	decision := engine.Begin(t.Context(), nil, core.Request{Scope: "s", Method: "POST", Path: "/", Key: "k"})
	if decision.Run == nil {
		t.Fatalf("got %+v, want a run by the default policy", decision)
	}
	testkit.Must(t, engine.Finish(decision.Run, failure.Outcome{Status: 201}, core.Response{Status: 201}))
}

// A policy that a check refuses is refused where it is declared, and every fault is named.
func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	required := func(p *policy.Policy) error {
		defer func() { p.Methods = nil }() // a check that changes the policy changes a copy
		if !p.Required {
			return &policy.FieldError{Field: "Required", Value: false, Want: "true"}
		}
		return nil
	}
	long := func(p *policy.Policy) error {
		if p.TTL < time.Hour {
			return &policy.FieldError{Field: "TTL", Value: p.TTL, Want: "at least an hour"}
		}
		return nil
	}
	engine := engineOf(t, memstore.New(), core.WithPolicyCheck(required), core.WithPolicyCheck(long))
	if route, err := engine.Route(); err != nil || !route.Guards(http.MethodPost) {
		t.Errorf("the default policy is refused or changed: %v", err)
	}
	_, err := engine.Route(policy.Required(false), policy.TTL(time.Minute))
	const want = "policy: Required is false: it must be true\npolicy: TTL is 1m0s: it must be at least an hour"
	if err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
	if _, is := errors.AsType[*policy.FieldError](err); !is {
		t.Errorf("the error %v has no FieldError", err)
	}
}

// A call of Do without a policy is none of a check's routes.
func TestPolicyCheckIsNotAskedAboutCalls(t *testing.T) {
	t.Parallel()
	never := func(*policy.Policy) error { return errors.New("never") }
	engine := engineOf(t, memstore.New(), core.WithPolicyCheck(never))
	got, _, err := core.Do(t.Context(), engine, core.Call{Scope: "s", Name: "n", Key: "k"}, func(context.Context) (int, error) { return 1, nil })
	if got != 1 || err != nil {
		t.Errorf("Do returned %d and %v", got, err)
	}
}
