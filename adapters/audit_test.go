package adapters_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// audits declare the same program on each router and audit the program: every way to
// guard a route and every way to miss a route.
var audits = map[string]func(*testing.T, *core.Engine, ...*policy.Table) policy.Report{
	"chi": func(t *testing.T, e *core.Engine, tables ...*policy.Table) policy.Report {
		t.Helper()
		r, guard, stranger := chi.NewRouter(), idemchi.New(e), idemchi.New(engineFor(t))
		r.Use(chimiddleware.NoCache, guard.Table(tables[0]))
		r.With(guard.Policy()).Post("/policy", created)
		r.Post("/handle", guard.Handle(created, policy.TTLHours(48)))
		r.Route("/group", func(r chi.Router) {
			r.Use(guard.Policy())
			r.Post("/", created)
			r.Route("/deep", func(r chi.Router) { r.Patch("/{id}", created) })
		})
		r.Group(func(r chi.Router) {
			r.Use(guard.Policy(policy.Methods("PATCH")))
			r.Patch("/methods", created)
			r.Post("/methods", created) // the policy leaves it out
		})
		type API struct {
			Mounted http.HandlerFunc `route:"POST /mounted" idempotency:""`
			Bare    http.HandlerFunc `route:"POST /bare"`
		}
		testkit.Must(t, idemchi.Mount(r, guard, API{created, created}))
		r.Post("/tabled/{id}", created)
		r.Post("/plain", created)
		r.Get("/plain", created)
		r.Put("/plain", created)
		r.Post("/wrapped", func(w http.ResponseWriter, r *http.Request) { guard.Handle(created)(w, r) })
		r.With(stranger.Policy()).Post("/stranger", created)
		elsewhere := chi.NewRouter()
		elsewhere.Post("/unreached", created)
		r.Handle("/opaque/*", http.StripPrefix("/opaque", elsewhere))
		return idemchi.Audit(r, idemchi.New(e), tables...)
	},
	"gin": func(t *testing.T, e *core.Engine, tables ...*policy.Table) policy.Report {
		t.Helper()
		r, guard, stranger, h := gin.New(), idemgin.New(e), idemgin.New(engineFor(t)), gin.WrapF(created)
		r.ContextWithFallback = true
		r.Use(gin.Recovery(), guard.Table(tables[0]))
		r.POST("/policy", guard.Policy(), h)
		r.POST("/handle", guard.Handle(h, policy.TTLHours(48)))
		group := r.Group("/group", guard.Policy())
		group.POST("", h)
		group.Group("/deep").PATCH("/:id", h)
		methods := r.Group("/", guard.Policy(policy.Methods("PATCH")))
		methods.PATCH("/methods", h)
		methods.POST("/methods", h) // the policy leaves it out
		type API struct {
			Mounted gin.HandlerFunc `route:"POST /mounted" idempotency:""`
			Bare    gin.HandlerFunc `route:"POST /bare"`
		}
		testkit.Must(t, idemgin.Mount(r, guard, API{h, h}))
		r.POST("/tabled/:id", h)
		r.POST("/plain", h)
		r.GET("/plain", h)
		r.PUT("/plain", h)
		r.POST("/wrapped", func(c *gin.Context) { guard.Handle(h)(c) })
		r.POST("/stranger", stranger.Policy(), h)
		r.POST("/opaque/*rest", gin.WrapH(http.NotFoundHandler()))
		return idemgin.Audit(r, idemgin.New(e), tables...)
	},
}

func tableOf(t *testing.T, rows ...policy.TableRow) *policy.Table {
	t.Helper()
	table, err := policy.NewTable(rows...)
	testkit.Must(t, err)
	return table
}

// An unguarded route is a warning. A row that guards no route is an error.
func TestAudit(t *testing.T) {
	t.Parallel()
	rest := map[string]string{"chi": "/opaque/*", "gin": "/opaque/*rest"}
	param := map[string]string{"chi": "/tabled/{id}", "gin": "/tabled/:id"}
	for name, audit := range audits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mounted := tableOf(t,
				policy.Row("POST "+param[name]),
				policy.Row("POST /tabled/{other}"),
				policy.Row("PATCH "+param[name]),
				policy.Row("POST /opaque/unreached"),
			)
			unmounted := tableOf(t, policy.Row("POST /plain"), policy.Row("PUT /plain"))
			report := audit(t, engineFor(t), mounted, unmounted)

			want := []string{"POST /bare", "POST /methods", "POST " + rest[name], "POST /plain", "POST /stranger", "POST /wrapped"}
			if name == "chi" { // chi routes every method of the path
				want = slices.Insert(want, 2, "PATCH "+rest[name])
			}
			for i, route := range want {
				want[i] = route + " is not guarded: no idempotency policy covers it, so a retry runs its handler again"
			}
			if !slices.Equal(report.Warnings, want) {
				t.Errorf("warnings are\n%s\nwant\n%s", strings.Join(report.Warnings, "\n"), strings.Join(want, "\n"))
			}

			const lost, unguarded = " matches no route: use the router's own spelling, with all prefixes", " is not guarded by its table: mount the guard's Table where the route is declared"
			want = []string{
				"policy: row 2: POST /tabled/{other}" + lost,
				"policy: row 3: PATCH " + param[name] + lost,
				"policy: row 4: POST /opaque/unreached" + lost,
				"policy: row 1: POST /plain" + unguarded,
				"policy: row 2: PUT /plain" + unguarded,
			}
			if got := strings.Split(fmt.Sprint(report.Err()), "\n"); !slices.Equal(got, want) {
				t.Errorf("errors are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// A table that is mounted too late, or by the guard of another engine, guards no route.
func TestAuditOfATableThatIsNotInForce(t *testing.T) {
	t.Parallel()
	table := tableOf(t, policy.Row("POST /payments"))
	e, other := engineFor(t), engineFor(t)

	late := gin.New()
	late.POST("/payments", gin.WrapF(created))
	late.Use(idemgin.New(e).Table(table))
	foreignGin := gin.New()
	foreignGin.Use(idemgin.New(other).Table(table))
	foreignGin.POST("/payments", gin.WrapF(created))
	foreignChi := chi.NewRouter()
	foreignChi.Use(idemchi.New(other).Table(table))
	foreignChi.Post("/payments", created)

	for name, report := range map[string]policy.Report{
		"gin, mounted after the route":  idemgin.Audit(late, idemgin.New(e), table),
		"gin, guard of another engine":  idemgin.Audit(foreignGin, idemgin.New(e), table),
		"chi, guard of another engine":  idemchi.Audit(foreignChi, idemchi.New(e), table),
		"chi, a row beside the mounted": idemchi.Audit(foreignChi, idemchi.New(other), tableOf(t, policy.Row("POST /payments"))),
	} {
		if len(report.Errors) != 1 || !strings.Contains(fmt.Sprint(report.Err()), "POST /payments is not guarded by its table") {
			t.Errorf("%s: %v", name, report.Err())
		}
	}
	if report := idemchi.Audit(foreignChi, idemchi.New(other), table); report.Err() != nil || len(report.Warnings) > 0 {
		t.Errorf("its own engine's guard says %+v", report)
	}
}

// Routers skip the rows of tools, and tell who guards them, until the engine has their
// policy.
func TestAuditOfTools(t *testing.T) {
	t.Parallel()
	for _, router := range []string{"chi", "gin"} {
		e := engineFor(t)
		table := tableOf(t, policy.Row("TOOL charge"), policy.Row("POST /payments"))
		audit := func() policy.Report {
			if router == "gin" {
				r := gin.New()
				r.ContextWithFallback = true
				r.Use(idemgin.New(e).Table(table))
				r.POST("/payments", gin.WrapF(created))
				return idemgin.Audit(r, idemgin.New(e), table)
			}
			r := chi.NewRouter()
			r.Use(idemchi.New(e).Table(table))
			r.Post("/payments", created)
			return idemchi.Audit(r, idemchi.New(e), table)
		}
		const want = "[policy: row 1: TOOL charge is not guarded: give the table to idemmcp.New of adapters/mcp, with this engine]"
		if got := audit(); fmt.Sprint(got.Errors) != want || len(got.Warnings) > 0 {
			t.Errorf("%s: got %+v, want %s", router, got, want)
		}
		e.MustRoute(policy.Methods(storage.MethodTool)).Declare(core.Endpoint{Method: storage.MethodTool, Pattern: "charge"})
		if got := audit(); len(got.Errors) > 0 {
			t.Errorf("%s: the engine guards the tool: %v", router, got.Errors)
		}
	}
}

// Audit calls only functions of the guards.
func TestAuditCallsOnlyGuards(t *testing.T) {
	t.Parallel()
	e := engineFor(t)
	built := 0
	r := chi.NewRouter()
	r.With(func(next http.Handler) http.Handler { built++; return next }).Post("/payments", func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	before := built
	idemchi.Audit(r, idemchi.New(e))
	testkit.Equal(t, built, before, "Audit built a stranger's middleware")
	router := gin.New()
	router.ContextWithFallback = true
	router.Use(func(*gin.Context) { t.Error("the middleware ran") })
	router.POST("/payments", func(*gin.Context) { t.Error("the handler ran") })
	testkit.Equal(t, len(idemgin.Audit(router, idemgin.New(e)).Warnings), 1, "warnings")
}
