package adapters_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
)

// under gives a request its key under another header name.
func under(name, key string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del(core.KeyHeader)
		r.Header.Add(name, key)
	}
}

var twoHeaders = []core.Option{core.WithKeyHeader("x-request-key", "Legacy-Key")}

// Each of the headers gives the same key.
func TestKeyHeaders(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: twoHeaders})
		s.runsAgain(payment("", under("X-Request-Key", "k")))
		s.replays(payment("", under("X-Request-Key", `"k"`)))
		s.replays(payment("", under("Legacy-Key", "k")))
	})
}

// A request with several keys is refused, also where the keys are equal.
func TestSeveralKeyHeadersAreRefused(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: twoHeaders})
		for _, other := range []func(*http.Request){under("Legacy-Key", "k"), under("Legacy-Key", "other"), under("X-Request-Key", "k")} {
			r := payment("", under("X-Request-Key", "k"), other)
			s.refuses(r, http.StatusBadRequest, problem.KeyInvalid)
		}
		twice := func(r *http.Request) { r.Header["Legacy-Key"] = []string{"k", "k"} }
		s.refuses(payment("", under("Legacy-Key", "k"), twice), http.StatusBadRequest, problem.KeyInvalid)
	})
}

// Every text of a problem names the configured header.
func TestProblemsNameTheKeyHeader(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: twoHeaders})
		s.runsAgain(payment("", under("X-Request-Key", "used")))
		for name, row := range map[string]struct {
			request *http.Request
			want    problem.Problem
		}{
			"missing, although Idempotency-Key is sent": {payment("k"), problem.Problem{
				Code: problem.KeyMissing, Title: "X-Request-Key missing", Error: "X-Request-Key header is required",
			}},
			"too long": {payment("", under("Legacy-Key", strings.Repeat("k", 256))), problem.Problem{
				Code: problem.KeyInvalid, Title: "X-Request-Key invalid", Error: "X-Request-Key must not exceed 255 characters",
			}},
			"reused": {post("/payments", "", `{}`, under("X-Request-Key", "used")), problem.Problem{
				Code: problem.KeyReused, Title: "X-Request-Key reused", Error: "X-Request-Key reused",
			}},
		} {
			answer := s.do(row.request)
			got := problemIn(t, answer)
			if got.Code != row.want.Code || got.Title != row.want.Title || got.Error != row.want.Error || strings.Contains(answer.Body.String(), core.KeyHeader) {
				t.Errorf("%s: got %s, want %+v", name, answer.Body, row.want)
			}
		}
	})
}
