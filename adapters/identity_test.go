package adapters_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

// user is the scope of tests: the sender of the request.
func user(r *http.Request) (string, error) { return r.Header.Get("User"), nil }

func as(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("User", name) } }

// Case 22
func TestTwoPrincipalsHaveTwoRecords(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: user})
		s.runsAgain(payment("k", as("alice")))
		s.runsAgain(payment("k", as("bob")))
		s.replays(payment("k", as("alice")))
	})
}

// Case 22: bob cannot detect alice's keys, not even with another payload.
func TestForeignAndUnknownKeysLookTheSame(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: user})
		s.do(payment("foreign", as("alice")))
		foreign := s.do(post("/payments", "foreign", `{"amount":1}`, as("bob")))
		unknown := s.do(post("/payments", "unknown", `{"amount":1}`, as("bob")))
		if foreign.Code != unknown.Code || foreign.Body.String() != unknown.Body.String() {
			t.Errorf("foreign %d %s\nunknown %d %s", foreign.Code, foreign.Body, unknown.Code, unknown.Body)
		}
		s.ran(3)
	})
}

// Case 23
func TestScopeAndKeyDoNotRunTogether(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: user})
		s.runsAgain(payment("c", as("a:b")))
		s.runsAgain(payment("b:c", as("a")))
	})
}

// Case 24
func TestRevokedUserGetsNoReplay(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		revoked := false
		s := m.start(t, program{scope: func(*http.Request) (string, error) {
			if revoked {
				return "", errors.New("revoked")
			}
			return "alice", nil
		}})
		s.do(payment("k"))
		revoked = true
		s.refuses(payment("k"), http.StatusUnauthorized, problem.PrincipalMissing)
		s.claimed(1)
	})
}

// Case 25
func TestAnotherRequestUnderOneKey(t *testing.T) {
	t.Parallel()
	const reused = http.StatusUnprocessableEntity
	for _, row := range []struct {
		name   string
		target string
		change func(*http.Request)
		status int
	}{
		{name: "the same", target: "/payments?a=1&b=2", status: http.StatusCreated},
		{name: "query in another order", target: "/payments?b=2&a=1", status: http.StatusCreated},
		{name: "other query", target: "/payments?a=1&b=3", status: reused},
		{name: "more query", target: "/payments?a=1&b=2&c=3", status: reused},
		{name: "no query", target: "/payments", status: reused},
		{name: "a parameter of the content type", target: "/payments?a=1&b=2", status: http.StatusCreated, change: header("Content-Type", "application/json; charset=utf-8")},
		{name: "other content type", target: "/payments?a=1&b=2", status: reused, change: header("Content-Type", "text/plain")},
		{name: "other header", target: "/payments?a=1&b=2", status: http.StatusCreated, change: header("User-Agent", "retrying/2.0")},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{})
			s.do(post("/payments?a=1&b=2", "k", amount))
			request := post(row.target, "k", amount)
			if row.change != nil {
				row.change(request)
			}
			if row.status == reused {
				s.refuses(request, reused, problem.KeyReused)
			} else {
				s.replays(request)
			}
			s.ran(1)
		})
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// Case 25: the concrete path counts, not the pattern.
func TestOtherPathIsAnotherRecord(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{pattern: "/payments/{id}"})
		s.runsAgain(post("/payments/1", "k", amount))
		s.runsAgain(post("/payments/2", "k", amount))
		s.replays(post("/payments/1", "k", amount))
		s.replays(post("/payments/%31", "k", amount)) // another spelling of 1
	})
}

func echoPath(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.RequestURI)) }

// Case 25: a handler at two paths has two records for one key.
func TestMountAtAnotherPathIsAnotherRecord(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*core.Engine) http.Handler{
		"http.StripPrefix": func(e *core.Engine) http.Handler {
			payments := e.Handler(http.HandlerFunc(echoPath))
			mux := http.NewServeMux()
			mux.Handle("/v1/", http.StripPrefix("/v1", payments))
			mux.Handle("/v2/", http.StripPrefix("/v2", payments))
			return mux
		},
		"chi.Mount": func(e *core.Engine) http.Handler {
			payments := chi.NewRouter()
			payments.With(idemchi.New(e).Policy()).Post("/payments", echoPath)
			r := chi.NewRouter()
			r.Mount("/v1", payments)
			r.Mount("/v2", payments)
			return r
		},
		"gin group": func(e *core.Engine) http.Handler {
			r, payments := gin.New(), idemgin.New(e).Handle(gin.WrapF(echoPath))
			r.Group("/v1").POST("/payments", payments)
			r.Group("/v2").POST("/payments", payments)
			return r
		},
	}, func(t *testing.T, guarded func(*core.Engine) http.Handler) {
		s := everywhere(t, guarded)
		for _, path := range []string{"/v1/payments", "/v2/payments"} {
			s.gets(s.do(post(path, "k", amount)), anyStatus, path)
		}
	})
}

// Case 25: one key, two methods on one path.
func TestOtherMethodIsAnotherRecord(t *testing.T) {
	t.Parallel()
	echoMethod := func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Method)) }
	s := everywhere(t, func(e *core.Engine) http.Handler { return e.Handler(http.HandlerFunc(echoMethod)) })
	var answer *httptest.ResponseRecorder
	for _, method := range []string{http.MethodPost, http.MethodPatch} {
		answer = s.do(payment("k", func(r *http.Request) { r.Method = method }))
		if answer.Body.String() != method || isReplay(answer) {
			t.Errorf("%s got the response of %s", method, answer.Body)
		}
	}
}
