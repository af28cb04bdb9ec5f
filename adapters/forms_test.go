package adapters_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// ofForm makes a request a form.
func ofForm(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }

// Case 89: a form has a limit of fields, that of net/url. Above it the handler reads none
// of them, and only equal bytes are an equal request.
func TestFormOfTooManyFields(t *testing.T) {
	t.Parallel()
	rest := strings.Repeat("&b=1&a=1", 5000)
	onEveryRouter(t, func(t *testing.T, m mounting) {
		fields := 0
		s := m.start(t, program{
			policy: []policy.Option{policy.ExcludeFields("nonce")},
			handler: func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm() // its error is the limit's
				fields = len(r.PostForm)
				created(w, r)
			},
		})
		s.runsAgain(post("/payments", "few", "nonce=1&a=1&b=1", ofForm))
		if fields != 3 {
			t.Errorf("the handler reads %d fields, want 3", fields)
		}
		s.replays(post("/payments", "few", "b=1&nonce=2&a=1", ofForm))

		s.runsAgain(post("/payments", "many", "nonce=1"+rest, ofForm))
		if fields != 0 {
			t.Errorf("the handler reads %d fields of too many, want none", fields)
		}
		s.replays(post("/payments", "many", "nonce=1"+rest, ofForm))
		s.refuses(post("/payments", "many", "nonce=2"+rest, ofForm), http.StatusUnprocessableEntity, problem.KeyReused)
		s.refuses(post("/payments", "many", "nonce=1"+rest+"&", ofForm), http.StatusUnprocessableEntity, problem.KeyReused)

		s.runsAgain(post("/payments?nonce=1"+rest, "query", ""))
		s.replays(post("/payments?nonce=1"+rest, "query", ""))
		s.refuses(post("/payments?nonce=2"+rest, "query", ""), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}
