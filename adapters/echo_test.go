package adapters_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

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
	if got := answer.Header()[core.KeyHeader]; !slices.Equal(got, want) {
		s.Errorf("a response with status %d sends the keys %q back, want %q", answer.Code, got, want)
	}
}

// With WithKeyEcho every response has the key: the handler's own, in all the forms in which a
// handler can write or change it, and the replay.
func TestKeyEcho(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a response":        created,
		"no response":       func(http.ResponseWriter, *http.Request) {},
		"a status":          answering(http.StatusServiceUnavailable),
		"another key":       func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(core.KeyHeader, "other") },
		"one more":          func(w http.ResponseWriter, _ *http.Request) { w.Header().Add(core.KeyHeader, "other") },
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
		"observed":       policy.Observe(true),
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
