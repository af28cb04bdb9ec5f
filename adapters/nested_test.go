package adapters_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// nestings guard two routes by a policy on the group, and by one of their own.
func nestings(inner ...policy.Option) map[string]func(*core.Engine, http.HandlerFunc) http.Handler {
	const outer = 100 // bytes that the outer policy lets in
	return map[string]func(*core.Engine, http.HandlerFunc) http.Handler{
		"net_http": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /payments", e.Handler(handler, inner...))
			mux.Handle("POST /refunds", e.Handler(handler, inner...))
			return e.Handler(mux, policy.MaxRequestBytes(outer))
		},
		"chi": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r, guard := chi.NewRouter(), idemchi.New(e)
			r.Use(guard.Policy(policy.MaxRequestBytes(outer)))
			r.With(guard.Policy(inner...)).Post("/payments", handler)
			r.Post("/refunds", guard.Handle(handler, inner...))
			return r
		},
		"gin": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r, guard := gin.New(), idemgin.New(e)
			group := r.Group("/", guard.Policy(policy.MaxRequestBytes(outer)))
			group.POST("/payments", guard.Policy(inner...), gin.WrapF(handler))
			group.POST("/refunds", guard.Handle(gin.WrapF(handler), inner...))
			return r
		},
	}
}

func startNested(t *testing.T, nest func(*core.Engine, http.HandlerFunc) http.Handler) *service {
	t.Helper()
	var s *service
	s = everywhere(t, func(e *core.Engine) http.Handler {
		return nest(e, func(w http.ResponseWriter, r *http.Request) {
			s.runs.Add(1)
			created(w, r)
		})
	})
	return s
}

// Where two policies guard one request the outer one counts, and each route
// says so once.
func TestNestedGuards(t *testing.T) {
	t.Parallel()
	for name, nest := range nestings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startNested(t, nest)
			for _, key := range []string{"k1", "k2", "k3"} {
				s.runsAgain(payment(key))
				s.replays(payment(key))
			}
			s.runsAgain(post("/refunds", "k1", amount))
			if claims := s.store.acquires.Load(); claims != 7 {
				t.Errorf("the store was asked %d times, want once a request", claims)
			}
			if nested := s.events.of(core.ResultNested); len(nested) != 2 {
				t.Errorf("events are %+v, want one a route", nested)
			}
		})
	}
}

// The inner policy does nothing: not its limits either.
func TestInnerPolicyDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, nest := range nestings(policy.MaxRequestBytes(1)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startNested(t, nest)
			if answer := s.do(payment("k")); answer.Code != http.StatusCreated {
				t.Errorf("got %d %s, want 201", answer.Code, answer.Body)
			}
			s.replays(payment("k"))
		})
	}
}
