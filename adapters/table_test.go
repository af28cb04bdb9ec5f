package adapters_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// start runs the program, and returns its router too.
func (p *tabled) start(t *testing.T) (s *service, report policy.Report) {
	t.Helper()
	table := tableOf(t, p.rows...)
	s = startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		if p.chi != nil {
			router, guard := chi.NewRouter(), idemchi.New(e)
			p.chi(router, guard.Table(table), handler)
			report = idemchi.Audit(router, guard, table)
			return router
		}
		router, guard := gin.New(), idemgin.New(e)
		p.gin(router, guard.Table(table), gin.WrapF(handler))
		report = idemgin.Audit(router, guard, table)
		return router
	})
	return s, report
}

// A row guards only its own route, in every place of the table.
func TestTable(t *testing.T) {
	t.Parallel()
	testkit.Each(t, tabledPrograms, func(t *testing.T, program tabled) {
		s, report := program.start(t)
		for n, route := range program.guarded {
			method, path, _ := strings.Cut(route, " ")
			t.Log(route)
			key := "guarded-" + strconv.Itoa(n) // two spellings may name one resource
			s.runsAgain(post(path, key, amount, with(method)))
			s.replays(post(path, key, amount, with(method)))
		}
		for _, route := range program.passed {
			method, path, _ := strings.Cut(route, " ")
			t.Log(route)
			s.runsAgain(post(path, "k", amount, with(method)))
			s.runsAgain(post(path, "k", amount, with(method)))
		}
		if err := report.Err(); err != nil {
			t.Errorf("Audit does not find the guarded routes: %v", err)
		}
		s.gets(s.do(post("/nowhere/at/all", "k", amount)), http.StatusNotFound)
	})
}

// A row's own policy is kept, and events know the route that it names.
func TestTableKeepsThePolicyOfItsRow(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]string{"chi": "POST /v1/members/{id}", "gin": "POST /v1/members/:id"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := tabled{rows: []policy.TableRow{policy.Row(row, policy.Required(false), policy.ExcludeFields("sentAt"))}}
			if name == "chi" {
				program.chi = func(r *chi.Mux, table func(http.Handler) http.Handler, handler http.HandlerFunc) {
					r.Use(table)
					r.Route("/v1", func(r chi.Router) { r.Post("/members/{id}", handler) })
				}
			} else {
				program.gin = func(r *gin.Engine, table, handler gin.HandlerFunc) {
					r.Use(table)
					r.Group("/v1").POST("/members/:id", handler)
				}
			}
			s, _ := program.start(t)
			s.runsAgain(post("/v1/members/7", "k", `{"a":1,"sentAt":1}`))
			s.replays(post("/v1/members/7", "k", `{"a":1,"sentAt":2}`))
			s.refuses(post("/v1/members/7", "k", `{"a":2}`), 422, problem.KeyReused)
			s.runsAgain(post("/v1/members/7", "", amount, withoutKey))
			_, pattern, _ := strings.Cut(row, " ")
			for _, result := range []event.Result{event.Execute, event.Replay, event.NoKey} {
				if all := s.events.of(result); len(all) != 1 || all[0].route != pattern {
					t.Errorf("%s events are %+v, want one for %s", result, all, pattern)
				}
			}
		})
	}
}

// One table on two routers, and requests from everywhere at once.
func TestTableOfTwoRouters(t *testing.T) {
	t.Parallel()
	table := tableOf(t, policy.Row("POST /a/payments"), policy.Row("POST /b/payments"))
	s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		shared := chi.NewRouter() // below both
		shared.Use(idemchi.New(e).Table(table))
		shared.Post("/payments", handler)
		a, b := chi.NewRouter(), chi.NewRouter()
		a.Mount("/a", shared)
		b.Mount("/b", shared)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/a") {
				a.ServeHTTP(w, r)
			} else {
				b.ServeHTTP(w, r)
			}
		})
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { s.do(post("/a/payments", "k", amount)) })
		all.Go(func() { s.do(post("/b/payments", "k", amount)) })
	}
	all.Wait()
	s.ran(2)
}

// Mounting a table reports all faults that the engine finds in the table.
func TestTableThatTheEngineRefuses(t *testing.T) {
	t.Parallel()
	table := tableOf(t,
		policy.Row("POST /payments", policy.Transactional(true)),
		policy.Row("POST /refunds", policy.ExcludeFields("a..b")),
	)
	slashes := tableOf(t, policy.Row("POST /payments"), policy.Row("POST /payments/"))
	engine := engineFor(t)
	for name, mount := range map[string]func(*policy.Table){
		"chi": func(table *policy.Table) { idemchi.New(engine).Table(table) },
		"gin": func(table *policy.Table) { idemgin.New(engine).Table(table) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := panicOf(func() { mount(table) })
			for _, want := range []string{"policy: row 1: POST /payments: policy: Transactional is true", "policy: row 2: POST /refunds: policy: ExcludeFields"} {
				if !strings.Contains(said, want) {
					t.Errorf("panicked with %q, want %q", said, want)
				}
			}
			said = panicOf(func() { mount(slashes) })
			if want := "row 2: POST /payments/ is the route of another row"; strings.Contains(said, want) != (name == "chi") {
				t.Errorf("panicked with %q: a slash at the end makes two routes on gin, and one on chi", said)
			}
		})
	}
}

// A table outside a chi router would guard no route without an error, so it panics. A policy guards
// all requests there.
func TestTableOutsideOfChi(t *testing.T) {
	t.Parallel()
	table := tableOf(t, policy.Row("POST /payments"))
	s := everywhere(t, func(e *core.Engine) http.Handler {
		return idemchi.New(e).Table(table)(http.HandlerFunc(created))
	})
	if _, panicked := s.try(payment("k")); panicked == nil {
		t.Error("the table guards no route and does not panic")
	}
	one := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler { return idemchi.New(e).Policy()(handler) })
	one.runsAgain(payment("k"))
	one.replays(payment("k"))
}

// One table on two routers, of which one leads to the other, is one policy.
func TestOneTableOnTwoRouters(t *testing.T) {
	t.Parallel()
	table := tableOf(t, policy.Row("POST /payments"), policy.Row("POST /v1/payments"))
	onPrograms(t, map[string]declaring{
		"chi": func(e *core.Engine, pay http.HandlerFunc) http.Handler {
			r, v1, guard := chi.NewRouter(), chi.NewRouter(), idemchi.New(e)
			v1.Use(guard.Table(table))
			v1.Post("/payments", pay)
			r.Use(guard.Table(table))
			r.Post("/payments", pay)
			r.Mount("/v1", plain(v1))
			return r
		},
		"gin": func(e *core.Engine, pay http.HandlerFunc) http.Handler {
			r, v1, guard := gin.New(), gin.New(), idemgin.New(e)
			v1.Use(guard.Table(table))
			v1.POST("/v1/payments", gin.WrapF(pay))
			r.Use(guard.Table(table))
			r.POST("/payments", gin.WrapF(pay))
			r.NoRoute(gin.WrapH(v1))
			return r
		},
	}, func(t *testing.T, s *service) {
		for _, path := range []string{"/payments", "/v1/payments"} {
			s.runsAgain(post(path, "k", amount))
			s.replays(post(path, "k", amount))
		}
	})
}

// Case 52: a row that no route has leaves its path unknown.
func TestRowWithoutARoute(t *testing.T) {
	t.Parallel()
	testkit.Each(t, tabledPrograms, func(t *testing.T, program tabled) {
		program.rows = append(slices.Clone(program.rows), policy.Row("POST /mis/spelled/row"))
		s, report := program.start(t)
		for range 2 {
			s.gets(s.do(post("/mis/spelled/row", "k", amount)), http.StatusNotFound)
		}
		if report.Err() == nil {
			t.Error("Audit does not report the row")
		}
	})
}
