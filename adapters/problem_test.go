package adapters_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
)

// Case 60: a 401 carries the scope's challenge, in either form of problem.
func TestChallenge(t *testing.T) {
	t.Parallel()
	const bearer = `Bearer realm="payments"`
	denied := errors.New("no token")
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"a challenge", core.Challenge(bearer, denied), bearer},
		{"wrapped", fmt.Errorf("scope: %w", core.Challenge(bearer, denied)), bearer},
		{"without an error of its own", core.Challenge(bearer, nil), bearer},
		{"none", denied, ""},
		{"empty", core.Challenge("", denied), ""},
		{"one that splits the response", core.Challenge("Bearer\r\nX-Admin: yes", denied), ""},
	} {
		for form, options := range problemForms {
			onCase(t, row.name+"/"+form, everyRouter, func(t *testing.T, m mounting) {
				s := m.start(t, program{options: options, scope: func(*http.Request) (string, error) { return "alice", row.err }})
				answer := s.do(payment("k"))
				if got := answer.Header().Get("Www-Authenticate"); got != row.want || answer.Code != http.StatusUnauthorized {
					t.Errorf("got %d with the challenge %q, want 401 with %q", answer.Code, got, row.want)
				}
				s.ran(0)
			})
		}
	}
	if err := core.Challenge(bearer, denied); !errors.Is(err, denied) || err.Error() != denied.Error() {
		t.Errorf("a challenge is %v, want the error that it wraps", err)
	}
}

// problemForms are the engine's own problems, and the problems of a program that ignores
// headers.
var problemForms = map[string][]core.Option{
	"own": nil,
	"custom": {core.WithProblemWriter(func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		w.Header().Set("X-Code", p.Code)
		w.WriteHeader(p.Status)
		io.WriteString(w, p.RetryAfter.String())
	})},
}

// Case 70 and case 72: no problem may be cached. Only temporary problems have a
// Retry-After.
func TestHeadersOfProblems(t *testing.T) {
	t.Parallel()
	temporary := []string{problem.InProgress, problem.StoreUnavailable, problem.ShuttingDown, problem.HandlerCancelled, problem.NotConfirmed}
	for form, options := range problemForms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			onRefusals(t, options, func(t *testing.T, s *service, row refusal) {
				checkProblemHeader(t, s.do(row.request()), row.code, slices.Contains(temporary, row.code))
			})
		})
	}
}

func checkProblemHeader(t *testing.T, answer *httptest.ResponseRecorder, code string, temporary bool) {
	t.Helper()
	if got := answer.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("%s has Cache-Control %q, want no-store", code, got)
	}
	want := ""
	if temporary {
		want = "1"
	}
	if got := answer.Header().Get("Retry-After"); got != want {
		t.Errorf("%s has Retry-After %q, want %q", code, got, want)
	}
	if own := answer.Header().Get("X-Code"); own != "" && (answer.Body.String() != "0s") != temporary {
		t.Errorf("the writer of %s was given RetryAfter %s", own, answer.Body)
	}
}

// Case 70 and case 72: the problems that take the place of a handler's response.
func TestHeadersOfProblemsAfterTheHandler(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		code      string
		handler   http.HandlerFunc
		temporary bool
	}{
		{problem.HandlerCancelled, untilCancelled, true},
		{problem.HandlerFailed, then(executed, untilCancelled), false},
	} {
		onCase(t, row.code, everyRouter, inABubble(func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: row.handler, outside: []middleware{deadline}})
			checkProblemHeader(t, s.do(payment("k")), row.code, row.temporary)
		}))
	}
}
