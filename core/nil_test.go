package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

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
		{"engine of Do", func() error {
			_, _, err := core.Do(t.Context(), noEngine, core.Call{Scope: "s", Name: "n", Key: "k"}, function)
			return err
		}, "nil Engine"},
		{"function of Do", func() error {
			_, _, err := core.Do[int](t.Context(), engine, core.Call{Scope: "s", Name: "n", Key: "k"}, nil)
			return err
		}, "nil function"},
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

// Case 65: a nil argument of Serve is not dereferenced. The response names the argument.
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
		{"http.Handler", engine, engine.MustRoute(), nil},
		{"http.Handler", engine, engine.MustRoute(), http.HandlerFunc(nil)},
	} {
		response := httptest.NewRecorder()
		row.engine.Serve(response, newPost(t.Context(), "k", "{}"), row.route, row.next)
		if response.Code != http.StatusInternalServerError || !strings.Contains(response.Body.String(), "nil "+row.name) {
			t.Errorf("got %d %q, want 500 that names the %s", response.Code, response.Body, row.name)
		}
	}
	decision := engine.Begin(t.Context(), nil, core.Request{Scope: "s", Method: "POST", Path: "/", Key: "k"})
	if decision.Run == nil {
		t.Fatalf("got %+v, want a run by the default policy", decision)
	}
	if err := engine.Finish(decision.Run, failure.Outcome{Status: 201}, core.Response{Status: 201}); err != nil {
		t.Error(err)
	}
}
