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

// Outer middleware marks first responses and echoes the key, and a replay has its own
// marker.
func TestRecipesOfOuterMiddleware(t *testing.T) {
	t.Parallel()
	r, idem := chi.NewRouter(), idemchi.New(newEngine(t))
	markAndEcho := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Idempotent-Replay", "false") // a replay sets true
			w.Header().Set("Idempotency-Key", r.Header.Get("Idempotency-Key"))
			next.ServeHTTP(w, r)
		})
	}
	r.Use(markAndEcho, authenticate)
	r.With(idem.Policy()).Post("/payments", pay)

	for _, row := range []struct{ key, spelled, marker string }{{"k", "k", "false"}, {"k", `"k"`, "true"}, {"j", "j", "false"}} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(`{"amount":1}`))
		request.Header.Set(core.KeyHeader, row.spelled)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		marker, echo := w.Header().Values("X-Idempotent-Replay"), w.Header().Values(core.KeyHeader)
		if w.Code != http.StatusCreated || len(marker) != 1 || marker[0] != row.marker || len(echo) != 1 || echo[0] != row.spelled {
			t.Errorf("%s got %d, the marker %q and the key %q", row.spelled, w.Code, marker, echo)
		}
	}
}
