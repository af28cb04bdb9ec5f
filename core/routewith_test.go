package core_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
)

// A route of another protocol writes its own problems: the one of a refused request, and the
// one that is stored in place of a handler's lost response.
func TestRouteWritesItsOwnProblems(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	route, err := s.RouteWith(func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("own " + p.Code))
	})
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
