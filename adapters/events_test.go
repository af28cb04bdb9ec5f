package adapters_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Events name the route by its pattern, as the router spells it.
func TestEventsNameTheRoute(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		endpoint := "POST /payments/{id}"
		if m.isGin() {
			endpoint = "POST /payments/:id"
		}
		s := m.start(t, program{pattern: "/payments/{id}"})
		s.do(post("/payments/17", "k", amount))
		s.do(post("/payments/17", "k", amount))
		s.do(post("/payments/17", "k", "{}"))
		s.do(post("/payments/17", "", amount))
		want := []event.Result{
			event.Execute, event.Completed, event.Replay, event.KeyReused, event.Refused,
		}
		if len(s.events.all) != len(want) {
			t.Fatalf("events are %+v, want %q", s.events.all, want)
		}
		for i, event := range s.events.all {
			if event.result != want[i] || event.endpoint != endpoint {
				t.Errorf("event %d is %q of %q, want %q of %q", i, event.result, event.endpoint, want[i], endpoint)
			}
		}
	})
}

// A guard around the router knows the pattern once the router has found it.
func TestEventsOfAGuardAroundTheRouter(t *testing.T) {
	t.Parallel()
	onPrograms(t, map[string]declaring{
		"net_http": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /payments/{id}", handler)
			return e.Handler(mux)
		},
		"chi": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(idemchi.New(e).Policy())
			r.Route("/payments", func(r chi.Router) { r.Post("/{id}", handler) })
			return r
		},
		"chi, with middleware that copies the request": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(idemchi.New(e).Policy(), chimiddleware.WithValue("user", "alice"))
			r.Post("/payments/{id}", handler)
			return r
		},
		"gin": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r := gin.New()
			r.Use(idemgin.New(e).Policy())
			r.POST("/payments/:id", gin.WrapF(handler))
			return r
		},
	}, func(t *testing.T, s *service) {
		s.do(post("/payments/17", "k", amount))
		stored := s.events.of(event.Completed)
		if len(stored) != 1 || !strings.HasPrefix(stored[0].endpoint, "POST /payments/") || strings.Contains(stored[0].endpoint, "17") {
			t.Errorf("events are %+v, want the pattern", s.events.all)
		}
		if stored[0].route == "" {
			t.Error("the route is not known")
		}
	})
}

// Tracing outside of the guard finds the pattern in its request, as without a guard.
func TestPatternOutsideOfTheGuard(t *testing.T) {
	t.Parallel()
	outside := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			w.Header().Set("Found", r.Pattern)
		})
	}
	onPrograms(t, map[string]declaring{
		"net_http": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.HandleFunc("/payments/{id}", handler)
			return outside(e.Handler(mux))
		},
		"chi": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(outside, idemchi.New(e).Policy())
			r.Post("/payments/{id}", handler)
			return r
		},
	}, func(t *testing.T, s *service) {
		run, replay, refusal := s.do(post("/payments/17", "k", amount)), s.do(post("/payments/17", "k", amount)), s.do(post("/payments/17", "", amount))
		if found := run.Header().Get("Found"); found != "/payments/{id}" {
			t.Errorf("the pattern of a run is %q", found)
		}
		for _, unrun := range []*httptest.ResponseRecorder{replay, refusal} {
			if found := unrun.Header().Get("Found"); !strings.HasSuffix(t.Name(), "chi") && found != "/payments/{id}" {
				t.Errorf("the pattern of a %d that did not run is %q", unrun.Code, found)
			}
		}
	})
}

// groups are programs with a group that is mounted below a prefix.
var groups = map[string]func(*core.Engine) (http.Handler, error){
	"chi": func(e *core.Engine) (router http.Handler, err error) {
		r, guard := chi.NewRouter(), idemchi.New(e)
		r.Route("/v1", func(r chi.Router) {
			r.Use(guard.Policy())
			r.Post("/payments", created)
			r.Post("/files/*", created)
			r.Route("/orders", func(r chi.Router) { r.With(guard.Policy()).Post("/{id}", created) })
		})
		r.Route("/v2", func(r chi.Router) {
			r.Use(guard.Policy())
			r.Post("/payments", created)
		})
		return r, idemchi.Mount(r, guard, struct {
			Mounted http.HandlerFunc `route:"POST /v1/mounted/" idempotency:""`
			Refund  http.HandlerFunc `route:"POST /v1/refunds:all" idempotency:""`
		}{created, created})
	},
	"gin": func(e *core.Engine) (http.Handler, error) {
		r, guard, handler := gin.New(), idemgin.New(e), gin.WrapF(created)
		v1 := r.Group("/v1")
		guarded := v1.Group("/", guard.Policy())
		guarded.POST("/payments", handler)
		guarded.POST("/files/*rest", handler)
		guarded.POST("/orders/:id", guard.Policy(), handler)
		r.Group("/v2", guard.Policy()).POST("/payments", handler)
		return r, idemgin.Mount(v1, guard, struct {
			Mounted gin.HandlerFunc `route:"POST /mounted/" idempotency:""`
			Refund  gin.HandlerFunc `route:"POST /refunds\\:all" idempotency:""`
		}{handler, handler})
	},
}

// A route of a mounted group has one endpoint, whether its requests run, are replayed or are
// refused.
func TestEndpointsOfMountedGroups(t *testing.T) {
	t.Parallel()
	for name, declare := range groups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var engine *core.Engine
			s := everywhere(t, func(e *core.Engine) http.Handler {
				router, err := declare(e)
				testkit.Must(t, err)
				engine = e
				mux := http.NewServeMux()
				mux.Handle("/", router)
				return mux
			})
			for _, path := range []string{"/v1/payments", "/v1/files/a/b", "/v1/orders/7", "/v2/payments", "/v1/mounted/", "/v1/refunds:all"} {
				for _, sent := range []*http.Request{post(path, "", amount), post(path, "k", amount), post(path, "k", amount), post(path, "k", "{}")} {
					s.do(sent)
				}
			}
			var got []string
			for _, route := range engine.Routes() {
				got = append(got, fmt.Sprint(route.Endpoints()))
			}
			want := map[string][]string{
				"chi": {"[POST /v1/payments POST /v1/files/*]", "[POST /v1/orders/{id}]", "[POST /v2/payments]", "[POST /v1/mounted]", "[POST /v1/refunds:all]"},
				"gin": {"[POST /v1/payments POST /v1/files/*rest]", "[POST /v1/orders/:id]", "[POST /v2/payments]", "[POST /v1/mounted/]", "[POST /v1/refunds:all]"},
			}[name]
			testkit.EqualSlices(t, got, want, "the endpoints")
		})
	}
}

// Case 34: a client's text cannot forge a line in the log.
func TestLogLinesCannotBeForged(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]string{
		"line break":   "/a%0a{%22level%22:%22INFO%22}",
		"escape":       "/a%1b[31m",
		"not a letter": "/a%ff",
	}, func(t *testing.T, path string) {
		var lines bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
		engine := engineFor(t, core.WithObserver(event.Log(logger)))
		s := &service{TB: t, Handler: engine.Handler(http.HandlerFunc(created))}
		s.try(post(path, "secret-key", amount))
		for line := range strings.Lines(lines.String()) {
			if !strings.HasPrefix(line, "time=") || strings.Contains(line, "\x1b") || !utf8.ValidString(line) {
				t.Errorf("the log has %q", line)
			}
			if strings.Contains(line, "secret-key") {
				t.Errorf("the log shows the key: %q", line)
			}
		}
		if lines.Len() == 0 {
			t.Error("the log is empty")
		}
	})
}

// An endpoint begins with the method, and has no other space: a segment that is
// not a name becomes a star.
func TestEndpointOfAPathWithASpace(t *testing.T) {
	t.Parallel()
	s := everywhere(t, func(e *core.Engine) http.Handler { return e.Handler(http.HandlerFunc(created)) })
	s.do(post("/a%20b", "k", amount))
	for _, event := range s.events.all {
		testkit.Equal(t, event.endpoint, "POST /*", "the endpoint of %q", event.result)
	}
}
