package adapters_test

import (
	"net/http"
	"testing"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

func version(value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Api-Version", value) }
}

// An included header belongs to the request, also where all bytes of the body are equal.
func TestIncludeHeaders(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		for _, text := range []string{amount, ""} {
			s := m.start(t, program{route: route{policy: []policy.Option{policy.IncludeHeaders("x-api-version")}}})
			s.runsAgain(post("/payments", "k", text, version("1")))
			s.replays(post("/payments", "k", text, version("1"), func(r *http.Request) { r.Header.Set("X-Other", "2") }))
			s.refuses(post("/payments", "k", text, version("2")), http.StatusUnprocessableEntity, problem.KeyReused)
			s.refuses(post("/payments", "k", text), http.StatusUnprocessableEntity, problem.KeyReused)
			s.runsAgain(post("/payments", "j", text))
			s.replays(post("/payments", "j", text))
		}
	})
}

// Only the included fields of a body belong to the request.
func TestIncludeFields(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{route: route{policy: []policy.Option{policy.IncludeFields("amount", "currency")}}})
		s.runsAgain(payment("k"))
		s.replays(post("/payments", "k", `{"sentAt":1,"currency":"EUR","amount":1999}`))
		s.refuses(post("/payments", "k", `{"amount":1998,"currency":"EUR"}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.refuses(post("/payments", "k", `{"amount":1999}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.runsAgain(post("/payments", "j", `{"other":1}`))
		s.refuses(post("/payments", "j", `{"other":2}`), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}
