package adapters_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
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
	testkit.Each(t, problemForms, func(t *testing.T, options []core.Option) {
		onRefusals(t, options, func(t *testing.T, s *service, row refusal) {
			checkProblemHeader(t, s.do(row.request()), row.code, slices.Contains(temporary, row.code))
		})
	})
}

func checkProblemHeader(t *testing.T, answer *httptest.ResponseRecorder, code string, temporary bool) {
	t.Helper()
	testkit.Equal(t, answer.Header().Get("Cache-Control"), "no-store", "%s: Cache-Control", code)
	want := ""
	if temporary {
		want = "1"
	}
	testkit.Equal(t, answer.Header().Get("Retry-After"), want, "%s: Retry-After", code)
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

// echoes expects the key header of a request in its response, if it has one valid key.
func (s *service) echoes(r *http.Request) {
	s.Helper()
	answer, _ := s.try(r)
	want := r.Header[core.KeyHeader]
	if len(want) != 1 {
		want = nil
	} else if _, err := core.ParseKey(want[0]); err != nil {
		want = nil
	}
	var got []string
	for name, values := range answer.Header() {
		if strings.EqualFold(strings.TrimPrefix(name, http.TrailerPrefix), core.KeyHeader) {
			got = append(got, values...)
		}
	}
	testkit.EqualSlices(s, got, want, "the keys that a response with status %d sends back", answer.Code)
}

// With WithKeyEcho every response has the key: the handler's own, in all the forms in which a
// handler can write or change it, and the replay.
func TestKeyEcho(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a response":       created,
		"no response":      func(http.ResponseWriter, *http.Request) {},
		"a status":         answering(http.StatusServiceUnavailable),
		"another key":      func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(core.KeyHeader, "other") },
		"one more":         func(w http.ResponseWriter, _ *http.Request) { w.Header().Add(core.KeyHeader, "other") },
		"another spelling": func(w http.ResponseWriter, _ *http.Request) { w.Header()["idempotency-key"] = []string{"other"} },
		"a trailer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()[http.TrailerPrefix+core.KeyHeader] = []string{"other"}
		},
		"the key removed":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Del(core.KeyHeader) },
		"the header empty":  func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()) },
		"a stream":          func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
		"a large response":  func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(strings.Repeat("x", 64))) },
		"a longer response": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") },
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{options: []core.Option{core.WithKeyEcho()}, handler: handler, policy: []policy.Option{policy.MaxResponseBytes(32)}})
			for _, key := range []string{"k", "k", `"k"`} {
				s.echoes(payment(key))
			}
		})
	}
}

// Problems have the key too, and so have responses of requests that the policy lets pass.
func TestKeyEchoOfProblems(t *testing.T) {
	t.Parallel()
	onRefusals(t, []core.Option{core.WithKeyEcho()}, func(_ *testing.T, s *service, row refusal) { s.echoes(row.request()) })
	for name, option := range map[string]policy.Option{
		"another method": policy.Methods(http.MethodPut),
		"skipped":        policy.SkipIf(func(*http.Request) bool { return true }),
		"observed":       policy.ObserveOnly(true),
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			m.start(t, program{options: []core.Option{core.WithKeyEcho()}, policy: []policy.Option{option}}).echoes(payment("k"))
		})
	}
}

// A guard in a wrong place sends the key back too.
func TestKeyEchoInAWrongPlace(t *testing.T) {
	t.Parallel()
	s := mountings[0].start(t, program{options: []core.Option{core.WithKeyEcho()}})
	route := s.engine.MustRoute()
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.engine.Refuse(w, r, route, errors.New("wrong place"), http.NotFoundHandler())
	})
	s.echoes(payment("k"))
}

// The key comes back in the header in which it came.
func TestKeyEchoOfSeveralHeaders(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: append(slices.Clone(twoHeaders), core.WithKeyEcho())})
		for _, name := range []string{"X-Request-Key", "Legacy-Key"} {
			for _, key := range []string{"k", "a,b"} { // the second is refused
				answer, want := s.do(payment("", under(name, key))), key
				if key != "k" {
					want = ""
				}
				if got := answer.Header().Get(name); got != want || answer.Header().Get(core.KeyHeader) != "" {
					t.Errorf("the key %q in %s comes back as %q", key, name, answer.Header())
				}
			}
		}
	})
}

// Without the option no response has the key.
func TestNoKeyEcho(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{})
		for range 2 {
			if answer := s.do(payment("k")); answer.Header()[core.KeyHeader] != nil {
				t.Errorf("a response has the key: %v", answer.Header())
			}
		}
		s.refuses(post("/payments", "k", `{}`), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}
