package adapters_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// sendsAgain writes the path /old and sends the request to the router again.
func sendsAgain(r *gin.Engine, to string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.URL.Path == "/old" {
			c.Request.URL.Path = to
			r.HandleContext(c)
			c.Abort()
		}
	}
}

// ginDetours are programs on gin in which a request comes to the route of a row in another
// way than by the path of the route alone.
var ginDetours = map[string]struct {
	path, row string
	program   func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler
}{
	"HandleContext before the table": {"/old", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(sendsAgain(r, "/payments"), table)
		r.POST("/payments", pay)
		return r
	}},
	"HandleContext inside the table": {"/old", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(table, sendsAgain(r, "/payments"))
		r.POST("/payments", pay)
		return r
	}},
	"HandleContext inside the table, with an old route": {"/old", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(table, sendsAgain(r, "/payments"))
		r.POST("/payments", pay)
		r.POST("/old", pay)
		return r
	}},
	"HandleContext by a handler": {"/old", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(table)
		r.POST("/payments", pay)
		r.POST("/old", sendsAgain(r, "/payments"))
		return r
	}},
	"HandleContext for unknown paths, table on a group": {"/old", "POST /v1/payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Group("/v1", table).POST("/payments", pay)
		r.NoRoute(sendsAgain(r, "/v1/payments"))
		return r
	}},
	"around the engine": {"/old", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(table)
		r.POST("/payments", pay)
		return toPath("/old", "/payments")(r)
	}},
	"http.StripPrefix around the engine": {"/api/payments", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(table)
		r.POST("/payments", pay)
		return http.StripPrefix("/api", r)
	}},
	"RemoveExtraSlash": {"//payments//", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.RemoveExtraSlash = true
		r.Use(table)
		r.POST("/payments", pay)
		return toPath("//payments//", "//payments")(r)
	}},
	"UseRawPath": {"/of/a%2Fb/payments", "POST /of/:tenant/payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.UseRawPath, r.UnescapePathValues = true, true
		r.Use(table)
		r.POST("/of/:tenant/payments", pay)
		return r
	}},
	"a path that is written before the table": {"/payments", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(func(c *gin.Context) { c.Request.URL.Path = "/other" }, table)
		r.POST("/payments", pay)
		return r
	}},
	"a second engine for unknown paths": {"/payments", "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		legacy := gin.New()
		legacy.POST("/payments", pay)
		r.Use(table)
		r.NoRoute(gin.WrapH(legacy))
		return r
	}},
	"a second engine below": {"/v2/payments/7", "POST /v2/payments/:id", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		below := gin.New()
		below.POST("/v2/payments/:id", pay)
		r.Use(table)
		r.Any("/v2/*path", gin.WrapH(below))
		return r
	}},
	"a ServeMux below": {"/v2/files/a/b", "POST /v2/files/*path", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		below := http.NewServeMux()
		below.HandleFunc("POST /v2/files/", func(w http.ResponseWriter, r *http.Request) {
			c, _ := gin.CreateTestContext(w)
			c.Request = r
			pay(c)
		})
		r.Group("/v2", table).Any("/*path", gin.WrapH(below))
		return r
	}},
}

func startGinDetour(t *testing.T, row string, program func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler) *service {
	t.Helper()
	table := tableOf(t, policy.Row(row))
	return startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		return program(gin.New(), idemgin.New(e).Table(table), gin.WrapF(handler))
	})
}

// Cases 62 and 84 on gin: the route of a row has one effect, however a request comes to it.
func TestGinDetour(t *testing.T) {
	t.Parallel()
	for name, way := range ginDetours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startGinDetour(t, way.row, way.program)
			for range 3 {
				s.do(post(way.path, "k", amount))
			}
			s.ran(1)
			s.do(post(way.path, "other", amount))
			s.ran(2)
			s.reported(event.Execute, 2)
			s.gets(s.do(post("/nowhere", "k", amount)), http.StatusNotFound)
			synctest.Test(t, func(t *testing.T) {
				startGinDetour(t, way.row, way.program).runsOnce(func() *http.Request { return post(way.path, "k", amount) })
			})
		})
	}
}

// A route of a row whose request has another method by now is refused before its handler.
func TestGinMethodWrittenBeforeTheTable(t *testing.T) {
	t.Parallel()
	s := startGinDetour(t, "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
		r.Use(func(c *gin.Context) {
			if written := c.Request.Header.Get("X-Method"); written != "" {
				c.Request.Method = written
			}
		}, table)
		r.POST("/payments", pay)
		r.PUT("/payments", pay)
		return r
	})
	written := func(method string) func(*http.Request) { return header("X-Method", method) }
	for range 2 {
		s.refuses(post("/payments", "k", amount, written(http.MethodPut)), http.StatusInternalServerError, problem.WrongSetup)
	}
	s.reported(event.WrongSetup, 2, problem.WrongSetup)
	s.runsAgain(post("/payments", "k", amount, with(http.MethodPut))) // another route, without a row
	s.runsAgain(post("/payments", "k", amount, with(http.MethodPut)))
}

// A table of gin costs no allocation for a request of another method or route.
func TestGinTableAllocations(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	for _, path := range []string{"/payments", "/other", "/below/payments", "/nowhere"} {
		measure := func(tabled bool) float64 {
			s := startGinDetour(t, "POST /payments", func(r *gin.Engine, table, pay gin.HandlerFunc) http.Handler {
				if tabled {
					r.Use(table)
				} else {
					r.Use(func(c *gin.Context) { c.Next() })
				}
				r.POST("/payments", pay)
				r.GET("/payments", pay)
				r.GET("/other", pay)
				r.GET("/below/*path", pay)
				return r
			})
			s.do(post(path, "k", amount, with(http.MethodGet)))
			return testing.AllocsPerRun(100, func() { s.ServeHTTP(httptest.NewRecorder(), post(path, "k", amount, with(http.MethodGet))) })
		}
		if with, without := measure(true), measure(false); with > without {
			t.Errorf("GET %s takes %v allocations with a table, and %v without", path, with, without)
		}
	}
}
