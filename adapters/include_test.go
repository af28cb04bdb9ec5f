package adapters_test

import (
	"net/http"
	"testing"

	"github.com/oncekey/oncekey/core"
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
			s := m.start(t, program{policy: []policy.Option{policy.IncludeHeaders("x-api-version")}})
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
		s := m.start(t, program{policy: []policy.Option{policy.IncludeFields("amount", "currency")}})
		s.runsAgain(payment("k"))
		s.replays(post("/payments", "k", `{"sentAt":1,"currency":"EUR","amount":1999}`))
		s.refuses(post("/payments", "k", `{"amount":1998,"currency":"EUR"}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.refuses(post("/payments", "k", `{"amount":1999}`), http.StatusUnprocessableEntity, problem.KeyReused)
		s.runsAgain(post("/payments", "j", `{"other":1}`))
		s.refuses(post("/payments", "j", `{"other":2}`), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}

// Case 78: every byte of the query and of the body belongs to the request, and a 422 names no
// members.
func TestExactBytes(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.ExactBytes(true)}, options: []core.Option{core.WithDiffers()}})
		const first = `{"amount":1999,"currency":"EUR"}`
		s.runsAgain(post("/payments", "k", first))
		s.replays(post("/payments", "k", first))
		for name, other := range map[string]string{
			"blank": `{"amount":1999, "currency":"EUR"}`, "order": `{"currency":"EUR","amount":1999}`, "number": `{"amount":1999.0,"currency":"EUR"}`,
		} {
			answer := s.do(post("/payments", "k", other))
			if p := problemIn(s, answer); p.Code != problem.KeyReused || p.Differs != nil || p.Others != 0 || s.runs.Load() != 1 {
				t.Errorf("%s: got %+v after %d runs, want key_reused without members after one", name, p, s.runs.Load())
			}
		}
		s.refuses(post("/payments?a=1", "k", first), http.StatusUnprocessableEntity, problem.KeyReused)
		s.runsAgain(post("/payments", "j", "no JSON"))
		s.replays(post("/payments", "j", "no JSON"))
		s.refuses(post("/payments", "j", "no JSON "), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}
