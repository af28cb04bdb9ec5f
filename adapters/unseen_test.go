package adapters_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// plain hides a router from the router in which it is mounted, as tracing does.
func plain(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
}

// ownRouter is a program's own type of router.
type ownRouter struct {
	*chi.Mux
	name string
}

// byHost serves the router of a host, as go-chi/hostrouter does: it shows the routes of a default host, and finds none.
type byHost struct {
	http.Handler
	fallback chi.Router
}

func (h byHost) Routes() []chi.Route { return h.fallback.Routes() }

func (byHost) Middlewares() chi.Middlewares { return nil }

func (byHost) Match(*chi.Context, string, string) bool { return true }

func (byHost) Find(*chi.Context, string, string) string { return "" }

// detours are programs in which a request comes to the route of a row on a way that the
// table does not see when the request passes.
var detours = map[string]struct {
	path, row string
	declare   detour
}{
	"mounted behind a plain handler": {"/v1/payments", "POST /v1/payments", func(r, v1 *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		v1.Post("/payments", pay)
		r.Use(table)
		r.Mount("/v1", plain(v1))
	}},
	"with parameters, behind a plain handler": {"/of/acme/payments/7", "POST /of/{tenant}/payments/{id}", func(r, below *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		below.Post("/payments/{id}", pay)
		r.Use(table)
		r.Mount("/of/{tenant}", plain(below))
	}},
	"the table on a router behind a plain handler": {"/v1/payments", "POST /v1/payments", func(r, v1 *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		v1.Use(table)
		v1.Post("/payments", pay)
		r.Mount("/v1", plain(v1))
	}},
	"the table around a mount of a plain handler": {"/v1/payments", "POST /v1/payments", func(r, v1 *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		v1.Post("/payments", pay)
		r.With(table).Mount("/v1", plain(v1))
	}},
	"below http.StripPrefix": {"/v1/payments", "POST /v1/payments", func(r, v1 *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		v1.Post("/payments", pay)
		r.Use(table)
		r.Handle("/v1/*", http.StripPrefix("/v1", v1))
	}},
	"a ServeMux below": {"/v1/payments", "POST /v1/payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		v1 := http.NewServeMux()
		v1.Handle("POST /v1/payments", pay)
		r.Use(table)
		r.Mount("/v1", v1)
	}},
	"a second router for unknown paths": {"/payments", "POST /payments", func(r, legacy *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		legacy.Post("/payments", pay)
		r.Use(table)
		r.Get("/", created)
		r.NotFound(legacy.ServeHTTP)
	}},
	"unknown paths sent to the router again": {"/old", "POST /payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		r.Use(table)
		r.Post("/payments", pay)
		r.NotFound(func(w http.ResponseWriter, request *http.Request) {
			request.URL.Path = "/payments"
			r.ServeHTTP(w, request)
		})
	}},
	"sent to the router again by a handler": {"/old", "POST /payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		r.Use(table)
		r.Post("/payments", pay)
		r.Post("/old", func(w http.ResponseWriter, request *http.Request) {
			request.URL.Path = "/payments"
			r.ServeHTTP(w, request)
		})
	}},
	"a type that embeds a router": {"/v1/old", "POST /v1/payments", func(r, below *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		v1 := ownRouter{below, "v1"}
		v1.Use(routed("/old", "/payments"))
		v1.Post("/payments", pay)
		r.Use(table)
		r.Mount("/v1", v1)
	}},
	"a router for each host": {"/v1/payments/7", "POST /v1/payments/{id}", func(r, below *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		fallback := chi.NewRouter()
		for _, host := range []*chi.Mux{fallback, below} {
			host.Post("/payments/{id}", pay)
		}
		r.Use(table)
		r.Mount("/v1", byHost{below, fallback})
	}},
	"the table on the router of a host": {"/payments", "POST /payments", func(r, below *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		fallback := chi.NewRouter()
		for _, host := range []*chi.Mux{fallback, below} {
			host.Use(table)
			host.Post("/payments", pay)
		}
		r.Mount("/", byHost{below, fallback})
	}},
	"a router below rewrites": {"/v1/old", "POST /v1/payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		r.With(table).Route("/v1", func(r chi.Router) {
			r.Use(routed("/old", "/payments"), chimiddleware.URLFormat)
			r.Post("/payments", pay)
		})
	}},
	"a group around a router that rewrites": {"/v1/payments.json", "POST /v1/payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		r.Group(func(r chi.Router) {
			r.Use(table)
			r.Route("/v1", func(r chi.Router) {
				r.Use(chimiddleware.URLFormat)
				r.With(chimiddleware.NoCache).Post("/payments", pay)
			})
		})
	}},
	"the table on the router that rewrites": {"/v1/payments.json", "POST /v1/payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		r.Route("/v1", func(r chi.Router) {
			r.Use(table, chimiddleware.URLFormat)
			r.Post("/payments", pay)
		})
	}},
	"rewritten before the table of a router below": {"/v1/payments.json", "POST /v1/payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		r.Route("/v1", func(r chi.Router) {
			r.Use(chimiddleware.URLFormat, table)
			r.Post("/payments", pay)
		})
	}},
}

// routed writes chi's path of a router below another.
func routed(from, to string) chiMiddleware {
	return before(func(_ http.ResponseWriter, r *http.Request) {
		if routing := chi.RouteContext(r.Context()); routing.RoutePath == from {
			routing.RoutePath = to
		}
	}).std
}

// detour declares a route of a row on a router, and on one below it where there is one.
type detour = func(r, below *chi.Mux, table chiMiddleware, pay http.HandlerFunc)

func startDetour(t *testing.T, row string, declare detour) *service {
	t.Helper()
	table := tableOf(t, policy.Row(row))
	return startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r := chi.NewRouter()
		declare(r, chi.NewRouter(), idemchi.New(e).Table(table), handler)
		return r
	})
}

// Cases 62 and 84: the route of a row has one effect, wherever the table stands.
func TestDetour(t *testing.T) {
	t.Parallel()
	for name, way := range detours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startDetour(t, way.row, way.declare)
			s.runsAgain(post(way.path, "k", amount))
			s.replays(post(way.path, "k", amount))
			s.replays(post(way.path, "k", amount))
			s.claimed(3)
			s.reported(event.WrongSetup, 0)
			if answer := s.do(post("/nowhere", "k", amount)); name[:2] != "un" && answer.Code != http.StatusNotFound {
				t.Errorf("an unknown path got %d, want 404", answer.Code)
			}
			synctest.Test(t, func(t *testing.T) {
				startDetour(t, way.row, way.declare).runsOnce(func() *http.Request { return post(way.path, "k", amount) })
			})
		})
	}
}

// Cases 62 and 84: a row's route that runs without a guard is an event for each run.
func TestUnguardedRunIsReported(t *testing.T) {
	t.Parallel()
	type way struct {
		path, row string
		declare   detour
	}
	testkit.Each(t, map[string]way{
		"a router behind a plain handler rewrites": {"/v1/old", "POST /v1/payments", func(r, v1 *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
			v1.Use(routed("/old", "/payments"))
			v1.Post("/payments", pay)
			r.Use(table)
			r.Mount("/v1", plain(v1))
		}},
		"a row without the prefix": {"/v1/payments", "POST /payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
			r.Use(table)
			r.Route("/v1", func(r chi.Router) { r.Post("/payments", pay) })
		}},
		"the table in another function": {"/old", "POST /payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
			r.Use(func(next http.Handler) http.Handler { return table(next) }, chimiddleware.PathRewrite("/old", "/payments"))
			r.Post("/payments", pay)
		}},
		"a router that With has made": {"/old", "POST /v1/payments", func(r, below *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
			v1 := below.With(chimiddleware.NoCache)
			v1.Post("/payments", pay)
			r.Use(table, chimiddleware.PathRewrite("/old", "/v1/payments"))
			r.Mount("/v1", v1)
		}},
	}, func(t *testing.T, way way) {
		s := startDetour(t, way.row, way.declare)
		s.runsAgain(post(way.path, "k", amount))
		s.runsAgain(post(way.path, "k", amount))
		s.gets(s.do(post("/nowhere", "k", amount)), http.StatusNotFound)
		s.reported(event.WrongSetup, 2, "")
	})
}

// The middleware of a mounted router that With has made runs once.
func TestMountedWith(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	s := startDetour(t, "POST /v1/payments", func(r, below *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
		v1 := below.With(before(func(http.ResponseWriter, *http.Request) { passed.Add(1) }).std)
		v1.Post("/payments", pay)
		r.Use(table)
		r.Mount("/v1", v1)
	})
	s.runsAgain(post("/v1/payments", "k", amount))
	s.replays(post("/v1/payments", "k", amount))
	testkit.Equal(t, passed.Load(), 1, "runs of the middleware")
}

// A row whose path middleware inside the table sends to another row guards the request,
// and an event says so.
func TestOneRowSentToAnother(t *testing.T) {
	t.Parallel()
	table := tableOf(t, policy.Row("POST /old"), policy.Row("POST /payments"))
	s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r := chi.NewRouter()
		r.Use(idemchi.New(e).Table(table), chimiddleware.PathRewrite("/old", "/payments"))
		r.Post("/payments", handler)
		r.Post("/old", handler)
		return r
	})
	s.runsAgain(post("/old", "k", amount))
	s.replays(post("/old", "k", amount))
	if wrong := s.events.of(event.WrongSetup); len(wrong) != 1 || wrong[0].route != "/payments" || wrong[0].code != "" {
		t.Errorf("events are %+v, want one for the run", s.events.all)
	}
}

// A handler sends sub-requests to paths that middleware inside the table rewrites: each is
// guarded by its own row, and its handler runs once, also when the outer handler runs again.
func TestRewrittenSubRequests(t *testing.T) {
	t.Parallel()
	table := tableOf(t, policy.Row("POST /batch"), policy.Row("POST /payments/{id}"))
	for _, from := range []string{"/batch", "/plain", "/payments/outer"} {
		s := startDeclared(t, func(e *core.Engine, pay http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(idemchi.New(e).Table(table), chimiddleware.PathRewrite("/pay/", "/payments/"))
			batch := func(w http.ResponseWriter, request *http.Request) {
				for _, part := range []string{"/pay/1", "/pay/2", "/payments/2"} {
					sub := subRequest(request, part, amount)
					sub = sub.WithContext(context.WithValue(sub.Context(), chi.RouteCtxKey, (*chi.Context)(nil)))
					r.ServeHTTP(httptest.NewRecorder(), sub)
				}
				w.WriteHeader(http.StatusInternalServerError)
			}
			r.Post("/batch", batch)
			r.Post("/plain", batch)
			r.Post("/payments/{id}", func(w http.ResponseWriter, request *http.Request) {
				if chi.URLParam(request, "id") == "outer" {
					batch(w, request)
					return
				}
				pay(w, request)
			})
			return r
		})
		for range 2 {
			s.do(post(from, "k", amount))
		}
		s.ran(2)
	}
}

// Requests that a row lets through, or only observes, are reported once.
func TestRewrittenPathOfARowThatLetsThrough(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		option policy.Option
		key    string
		want   event.Result
	}{
		{policy.Required(false), "", event.NoKey},
		{policy.SkipIf(func(*http.Request) bool { return true }), "k", event.Skipped},
		{policy.ObserveOnly(true), "k", event.Replay},
	} {
		table := tableOf(t, policy.Row("POST /payments", row.option))
		s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(idemchi.New(e).Table(table), chimiddleware.PathRewrite("/old", "/payments"))
			r.Post("/payments", handler)
			return r
		})
		for n, path := range []string{"/old", "/payments"} {
			sent := func() *http.Request {
				r := post(path, row.key+strings.Repeat("k", n), amount)
				if row.key == "" {
					withoutKey(r)
				}
				return r
			}
			s.do(sent())
			before := len(s.events.all)
			s.do(sent())
			if all := s.events.all[before:]; len(all) != 1 || all[0].result != row.want {
				t.Errorf("%s: events are %+v, want one %s", path, all, row.want)
			}
		}
		s.ran(4)
	}
}

// A table costs no allocation for a request of another method.
func TestTableAllocations(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	measure := func(tabled bool) float64 {
		s := startDetour(t, "POST /payments", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
			if tabled {
				r.Use(table)
			}
			r.Post("/payments", pay)
			r.Get("/payments", created)
		})
		return testing.AllocsPerRun(100, func() { s.ServeHTTP(httptest.NewRecorder(), post("/payments", "k", amount, with(http.MethodGet))) })
	}
	if with, without := measure(true), measure(false); with > without {
		t.Errorf("a GET takes %v allocations with a table, and %v without", with, without)
	}
}

// A policy on a group that is mounted searches no pattern for a request of another method.
func TestMountedPolicyAllocations(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	measure := func(policies ...func(http.Handler) http.Handler) float64 {
		payments, router := chi.NewRouter(), chi.NewRouter()
		payments.Use(policies...)
		payments.Get("/payments", created)
		router.Mount("/v1", payments)
		return testing.AllocsPerRun(100, func() {
			router.ServeHTTP(httptest.NewRecorder(), post("/v1/payments", "k", amount, with(http.MethodGet)))
		})
	}
	const joined = 2 // chi joins the pattern of the route that it has found
	if with, without := measure(idemchi.New(engine).Policy()), measure(); with > without+joined {
		t.Errorf("a GET takes %v allocations with a policy, and %v without", with, without)
	}
}

// A request whose own method is not the one of its route is refused before the handler.
func TestRouteMethodAlone(t *testing.T) {
	t.Parallel()
	for _, inside := range []bool{false, true} {
		s := startDetour(t, "PATCH /members/{id}", func(r, _ *chi.Mux, table chiMiddleware, pay http.HandlerFunc) {
			override := before(func(_ http.ResponseWriter, r *http.Request) {
				chi.RouteContext(r.Context()).RouteMethod = http.MethodPatch
			}).std
			if inside {
				r.Use(table, override)
			} else {
				r.Use(override, table)
			}
			r.Patch("/members/{id}", pay)
		})
		for range 2 {
			s.refuses(post("/members/7", "k", amount, with(http.MethodGet)), http.StatusInternalServerError, problem.WrongSetup)
		}
		s.reported(event.WrongSetup, 2, problem.WrongSetup)
	}
}

// A test of one handler gives it chi's context without a router, for its parameters.
func TestChiContextWithoutARouter(t *testing.T) {
	t.Parallel()
	s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		guarded := idemchi.New(e).Handle(handler)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guarded(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, chi.NewRouteContext())))
		})
	})
	s.runsAgain(payment("k"))
	s.replays(payment("k"))
}
