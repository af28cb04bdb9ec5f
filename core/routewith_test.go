package core_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if got := s.ReplayHeader(); got != "X-Idempotent-Replay" {
		t.Errorf("ReplayHeader is %q", got)
	}
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
		if got := e.KeyHeaders(); !slices.Equal(got, []string{"X-Key", "X-Old-Key"}) {
			t.Errorf("KeyHeaders is %q", got)
		}
		route, err := e.RouteWith(core.Declaration{WriteProblem: func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
			_, _ = w.Write([]byte("carried: "))
			e.WriteProblem(w, r, p)
		}})
		if err != nil {
			t.Fatal(err)
		}
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
		if got := route.DeclaredAt(); got != want[i] {
			t.Errorf("route %d is declared at %s, want %s", i, got, want[i])
		}
	}
}
