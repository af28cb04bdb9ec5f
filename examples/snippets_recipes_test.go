package examples_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
)

// Outer middleware marks first responses, and a replay has its own marker.
func TestRecipesOfOuterMiddleware(t *testing.T) {
	t.Parallel()
	r, idem := chi.NewRouter(), idemchi.New(newEngine(t))
	markFirst := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Idempotent-Replay", "false") // a replay sets true
			next.ServeHTTP(w, r)
		})
	}
	r.Use(markFirst, authenticate)
	r.With(idem.Policy()).Post("/payments", pay)

	for _, row := range []struct{ key, marker string }{{"k", "false"}, {"k", "true"}, {"j", "false"}} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(`{"amount":1}`))
		request.Header.Set(core.KeyHeader, row.key)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		marker := w.Header().Values("X-Idempotent-Replay")
		if w.Code != http.StatusCreated || len(marker) != 1 || marker[0] != row.marker {
			t.Errorf("%s got %d and the marker %q", row.key, w.Code, marker)
		}
	}
}
