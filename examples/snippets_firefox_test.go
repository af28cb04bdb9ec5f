package examples_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// withoutNumbers removes a key that is a number in quotes: Firefox has added it, and the page has not.
func withoutNumbers(next http.Handler) http.Handler {
	number := regexp.MustCompile(`^"[0-9]+"$`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if number.MatchString(r.Header.Get(core.KeyHeader)) {
			r.Header.Del(core.KeyHeader)
		}
		next.ServeHTTP(w, r)
	})
}

// The table of docs/clients.md: a key that Firefox adds names a request, so each click has
// another, and a page must not rely on it.
func TestKeysThatFirefoxAdds(t *testing.T) {
	t.Parallel()
	const added, again, uuid = `"9372036854775807"`, `"1180591620717411303"`, "8e03978e-40d5-43e8-bc93-6894a57f9324"
	r, idem, runs := chi.NewRouter(), idemchi.New(newEngine(t)), 0
	order := func(w http.ResponseWriter, _ *http.Request) { runs++; w.WriteHeader(http.StatusCreated) }
	r.With(idem.Policy()).Post("/required", order)
	r.With(idem.Policy(policy.Required(false))).Post("/optional", order)
	r.With(idem.Policy(policy.KeyField("id"))).Post("/field", order)
	r.With(withoutNumbers, idem.Policy(policy.Required(false))).Post("/optional/without", order)
	r.With(withoutNumbers, idem.Policy(policy.KeyField("id"))).Post("/field/without", order)
	r.With(idem.Policy(policy.KeyFormat(policy.UUIDKey))).Post("/orders", order) // a number is no UUID

	for _, row := range []struct {
		path   string
		keys   []string
		status int // of each request
		runs   int
	}{
		{"/required", []string{""}, 400, 0},
		{"/required", []string{added, added}, 201, 1},
		{"/required", []string{again, `"5"`}, 201, 2},
		{"/optional", []string{added, added}, 201, 1},
		{"/optional", []string{"", ""}, 201, 2},
		{"/optional/without", []string{added, added}, 201, 2},
		{"/optional/without", []string{uuid, uuid}, 201, 1},
		{"/field", []string{added}, 400, 0},
		{"/field/without", []string{added, again}, 201, 1},
		{"/orders", []string{added}, 400, 0},
		{"/orders", []string{uuid, uuid}, 201, 1},
	} {
		runs = 0
		for _, key := range row.keys {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, row.path, strings.NewReader(`{"id":"order-42"}`))
			if key != "" {
				request.Header.Set(core.KeyHeader, key)
			}
			w := httptest.NewRecorder()
			if r.ServeHTTP(w, request); w.Code != row.status {
				t.Errorf("%s with the keys %q got %d, want %d", row.path, row.keys, w.Code, row.status)
			}
		}
		testkit.Equal(t, runs, row.runs, "runs of %s with the keys %q", row.path, row.keys)
	}
}
