package core_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// twice writes a second status, which net/http ignores.
func twice(w http.ResponseWriter, r *http.Request) {
	created(w, r)
	w.WriteHeader(http.StatusInternalServerError)
}

// A panic outside of the guard does not make the handler's second status a recovering one:
// the guard is called in a function that is deferred.
func TestPanicOutsideIsNotTheHandlers(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), twice)
	var first *httptest.ResponseRecorder
	func() {
		defer func() { _ = recover() }()
		defer func() { first = s.post(t.Context(), "k", payment) }()
		panic("outside")
	}()
	wantFirst(t, first)
	wantReplay(t, s.post(t.Context(), "k", payment))
}

// inProcess is a proxy's transport that calls a handler.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	return testkit.Serve(p.handler, r).Result(), nil
}

// A proxy outside of the guard does not hold the handler's own flush back.
func TestProxyOutsideHoldsNoFlush(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), createdAsStream)
	proxy := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: inProcess{s.handler}}
	for _, want := range []int{http.StatusCreated, http.StatusConflict} {
		w := testkit.Serve(proxy, newPost(t.Context(), "k", payment))
		if w.Code != want {
			t.Errorf("got %d %s, want %d", w.Code, w.Body, want)
		}
	}
}
