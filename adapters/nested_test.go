package adapters_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// nestings guard routes by a policy on the group, and two of them by one of their
// own.
func nestings(inner ...policy.Option) map[string]declaring {
	const outer = 100 // bytes that the outer policy lets in
	return map[string]declaring{
		"net_http": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /payments", e.Handler(handler, inner...))
			mux.Handle("POST /refunds", e.Handler(handler, inner...))
			mux.Handle("POST /plain", e.Handler(handler, policy.Methods("PUT")))
			return e.Handler(mux, policy.MaxRequestBytes(outer))
		},
		"chi": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r, guard := chi.NewRouter(), idemchi.New(e)
			r.Use(guard.Policy(policy.MaxRequestBytes(outer)))
			r.With(guard.Policy(inner...)).Post("/payments", handler)
			r.Post("/refunds", guard.Handle(handler, inner...))
			r.With(guard.Policy(policy.Methods("PUT"))).Post("/plain", handler)
			return r
		},
		"gin": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r, guard := gin.New(), idemgin.New(e)
			group := r.Group("/", guard.Policy(policy.MaxRequestBytes(outer)))
			group.POST("/payments", guard.Policy(inner...), gin.WrapF(handler))
			group.POST("/refunds", guard.Handle(gin.WrapF(handler), inner...))
			group.POST("/plain", guard.Policy(policy.Methods("PUT")), gin.WrapF(handler))
			return r
		},
	}
}

// Case 64: where a group and its route have a policy each, the route's counts:
// here by the number of bytes that it lets in. The route's does not count where it guards
// other methods.
func TestRoutePolicyCounts(t *testing.T) {
	t.Parallel()
	onPrograms(t, nestings(policy.MaxRequestBytes(1000)), func(t *testing.T, s *service) {
		large := `{"note":"` + strings.Repeat("a", 500) + `"}`
		for _, path := range []string{"/payments", "/refunds"} {
			for _, key := range []string{"k1", "k2"} {
				s.runsAgain(post(path, key, large))
				s.replays(post(path, key, large))
			}
		}
		s.refuses(post("/plain", "k", large), http.StatusRequestEntityTooLarge, problem.BodyTooLarge)
		s.runsAgain(post("/plain", "k", amount))
		s.replays(post("/plain", "k", amount))
		s.claimed(10)
	})
}

// Case 64: a route can observe inside a group that guards, and guard inside a group that
// observes.
func TestRoutePolicyCountsWhereOneObserves(t *testing.T) {
	t.Parallel()
	onPrograms(t, nestings(policy.ObserveOnly(true)), func(t *testing.T, s *service) {
		s.runsAgain(payment("k"))
		s.runsAgain(payment("k"))
		s.reported(event.Replay, 1)
	})
	s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /payments", e.Handler(handler))
		return e.Handler(mux, policy.ObserveOnly(true))
	})
	s.runsAgain(payment("k"))
	s.replays(payment("k"))
}

// hidden are two policies. The outer policy cannot see the inner policy.
var hidden = map[string]declaring{
	"net_http": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		inner := e.Handler(handler)
		return e.Handler(http.HandlerFunc(inner.ServeHTTP), policy.TTLHours(1))
	},
	"chi": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r, guard := chi.NewRouter(), idemchi.New(e)
		inner := guard.Handle(handler)
		r.With(guard.Policy(policy.TTLHours(1))).Post("/payments", func(w http.ResponseWriter, r *http.Request) { inner(w, r) })
		return r
	},
	"gin": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r, guard := gin.New(), idemgin.New(e)
		inner := guard.Handle(gin.WrapF(handler))
		r.POST("/payments", guard.Policy(policy.TTLHours(1)), func(c *gin.Context) { inner(c) })
		return r
	},
}

// Case 64: if the outer policy cannot see the inner policy, the first request is refused
// before the handler runs, and the error names both places.
func TestHiddenInnerPolicyIsRefused(t *testing.T) {
	t.Parallel()
	onPrograms(t, hidden, func(t *testing.T, s *service) {
		for range 2 {
			answer := s.do(payment("k"))
			p := problemIn(t, answer)
			if answer.Code != http.StatusInternalServerError || p.Code != problem.WrongSetup || strings.Count(p.Error, "nested_test.go:") != 2 {
				t.Errorf("got %d %+v", answer.Code, p)
			}
		}
		s.ran(0)
		s.reported(event.WrongSetup, 2)
	})
}

// One policy that is mounted twice is one policy.
func TestOnePolicyTwice(t *testing.T) {
	t.Parallel()
	onPrograms(t, map[string]declaring{
		"chi": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r, guarded := chi.NewRouter(), idemchi.New(e).Policy()
			r.Use(guarded)
			r.With(guarded).Post("/payments", handler)
			return r
		},
		"gin": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r, guarded := gin.New(), idemgin.New(e).Policy()
			r.Group("/", guarded).POST("/payments", guarded, gin.WrapF(handler))
			return r
		},
	}, func(t *testing.T, s *service) {
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
	})
}

// Case 64: a route's policy counts although middleware in between writes its path,
// and where there is none the group's counts.
func TestRoutePolicyBehindAnotherPath(t *testing.T) {
	t.Parallel()
	s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r, guard := chi.NewRouter(), idemchi.New(e)
		r.Use(guard.Policy(policy.TTLHours(1)), chimiddleware.PathRewrite("/old", "/new"))
		r.With(guard.Policy()).Post("/old", handler)
		r.Post("/new", handler)
		return r
	})
	s.runsAgain(post("/old", "k", amount))
	s.replays(post("/old", "k", amount))
}
