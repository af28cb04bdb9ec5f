package adapters_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// generated is a handler as oapi-codegen generates it: the middlewares of
// GinServerOptions are functions that it calls before the handler.
func generated(handler gin.HandlerFunc, middlewares ...gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		for _, middleware := range middlewares {
			middleware(c)
			if c.IsAborted() {
				return
			}
		}
		handler(c)
	}
}

// nowhere are places in which no handler runs behind the guard.
var nowhere = map[string]func(t *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc){
	"oapi-codegen's middlewares": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		e.POST("/payments", generated(pay, func(*gin.Context) {}, g.Policy()))
	},
	"in a group with a middleware": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		group := e.Group("/", func(c *gin.Context) { c.Next() })
		group.POST("/payments", func(c *gin.Context) { c.Next() }, generated(pay, g.Policy()))
	},
	// huma gives a middleware a context, of which humagin.Unwrap returns gin's, and a next.
	"huma's middleware": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		guard := g.Policy()
		middleware := func(c *gin.Context, next func(*gin.Context)) {
			if guard(c); !c.IsAborted() {
				next(c)
			}
		}
		e.POST("/payments", func(c *gin.Context) { middleware(c, pay) })
	},
	"a table that a function calls": func(t *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		t.Helper()
		e.POST("/payments", generated(pay, g.Table(tableOf(t, policy.Row("POST /payments")))))
	},
	"a function for unknown paths": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		e.NoRoute(generated(pay, g.Policy()))
	},
	"after the rest of the chain": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		guard := g.Policy()
		e.POST("/payments", generated(pay, func(c *gin.Context) { c.Next(); guard(c) }))
	},
	"behind a group's policy, and after the handler": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		e.Group("/", g.Policy()).POST("/payments", pay, g.Policy())
	},
	"a nil handler": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, _ gin.HandlerFunc) {
		e.POST("/payments", func(c *gin.Context) { g.Policy()(c) }, nil)
	},
	"a policy that requires no key": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		e.POST("/payments", generated(pay, g.Policy(policy.Required(false))))
	},
}

// startPlaced runs a gin program with a handler that counts its runs.
func startPlaced(t *testing.T, declare func(*idemgin.Guard, *gin.Engine, gin.HandlerFunc)) *service {
	t.Helper()
	var s *service
	s = startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
		declare(g, e, func(c *gin.Context) {
			s.runs.Add(1)
			c.String(http.StatusCreated, "made")
		})
	})
	return s
}

// Case 83: a guard with nothing behind it refuses the request before any effect, and does
// not ask the store.
func TestGuardWithNothingBehind(t *testing.T) {
	t.Parallel()
	testkit.Each(t, nowhere, func(t *testing.T, declare func(t *testing.T, g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc)) {
		s := startPlaced(t, func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) { declare(t, g, e, pay) })
		for range 2 {
			s.refuses(payment("k"), http.StatusInternalServerError, problem.WrongSetup)
		}
		s.reported(event.WrongSetup, 2, problem.WrongSetup)
		s.claimed(0)
	})
}

// Case 83: the effect of a handler before its policy cannot be undone. The guard reports
// it, stores nothing, and adds nothing to the response.
func TestPolicyAfterItsHandler(t *testing.T) {
	t.Parallel()
	s := startPlaced(t, func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) { e.POST("/payments", pay, g.Policy()) })
	for range 2 {
		s.gets(s.runsAgain(payment("k")), http.StatusCreated, "made")
	}
	s.reported(event.WrongSetup, 2)
	s.claimed(0)
	silent := startPlaced(t, func(g *idemgin.Guard, e *gin.Engine, _ gin.HandlerFunc) {
		e.POST("/payments", func(c *gin.Context) { c.Status(http.StatusCreated) }, g.Policy())
	})
	silent.refuses(payment("k"), http.StatusInternalServerError, problem.WrongSetup)
}

// Case 83: a guard that a function calls guards the handlers behind that function. A route
// that only observes passes everywhere.
func TestGuardThatAFunctionCalls(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*idemgin.Guard, *gin.Engine, gin.HandlerFunc){
		"a middleware calls the policy": func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
			e.POST("/payments", generated(func(*gin.Context) {}, g.Policy()), pay)
		},
		"on the router": func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
			guard := g.Policy()
			e.Use(func(c *gin.Context) { guard(c) })
			e.POST("/payments", pay)
		},
		"Handle": func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
			e.POST("/payments", generated(g.Handle(pay)))
		},
		"after Next of an earlier middleware": func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
			e.Use(func(c *gin.Context) { c.Next() })
			e.Group("/", func(c *gin.Context) { c.Next() }).POST("/payments", g.Policy(), func(c *gin.Context) { c.Next() }, pay)
		},
	}, func(t *testing.T, declare func(*idemgin.Guard, *gin.Engine, gin.HandlerFunc)) {
		s := startPlaced(t, declare)
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
	})
	observing := startPlaced(t, func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		e.POST("/payments", generated(pay, g.Policy(policy.ObserveOnly(true))))
	})
	observing.runsAgain(payment("k"))
	observing.reported(event.WrongSetup, 1)
	other := startPlaced(t, func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
		e.GET("/payments", generated(pay, g.Policy()))
	})
	other.runsAgain(payment("k", with(http.MethodGet)))
}

// Case 83: Audit refuses a policy after the handlers, and names the routes whose guard a
// function calls.
func TestAuditOfPlaces(t *testing.T) {
	t.Parallel()
	for name, declare := range nowhere {
		e := gin.New()
		guard := idemgin.New(engineFor(t))
		declare(t, guard, e, gin.WrapF(created))
		report := idemgin.Audit(e, guard)
		named := strings.Join(report.Warnings, "\n")
		if err := report.Err(); err != nil {
			named += err.Error()
		}
		if !strings.Contains(named, "POST /payments is not guarded") && len(e.Routes()) > 0 &&
			!strings.Contains(named, "POST /payments: gin calls no handler behind the policy declared at adapters/gin_place_test.go") {
			t.Errorf("%s: Audit reports %q", name, named)
		}
	}
	e, guard, pay := gin.New(), idemgin.New(engineFor(t)), gin.WrapF(created)
	table := tableOf(t, policy.Row("POST /tabled"))
	e.POST("/late", pay, guard.Policy())
	e.POST("/tabled", pay, guard.Table(table))
	e.Group("/", guard.Policy()).POST("/both", pay, guard.Policy())
	e.POST("/right", guard.Policy(), pay)
	e.GET("/get", pay, guard.Policy(policy.Methods("GET")))
	report := idemgin.Audit(e, guard, table)
	errs := strings.Split(fmt.Sprint(report.Err()), "\n")
	counted(t, errs, "/both behind gin_place_test.go", "/get behind gin_place_test.go", "/late behind gin_place_test.go", "/tabled behind table", "/tabled not guarded by its table")
}

// Case 81: a handler's *gin.Context ends with its run if ContextWithFallback of the engine
// is true, and never otherwise. Then the guard says so.
func TestEndOfTheRunOnGinsContext(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]bool{"default": false, "ContextWithFallback": true}, func(t *testing.T, fallback bool) {
		s := startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
			e.ContextWithFallback = fallback
			e.POST("/payments", g.Handle(func(c *gin.Context) {
				ctx, cancel := context.WithTimeout(c, time.Hour)
				defer cancel()
				began := time.Now()
				<-ctx.Done()
				if ended := time.Since(began) < time.Hour; ended != fallback || (c.Err() != nil) != fallback {
					t.Errorf("the context ended after %v, with %v", time.Since(began), c.Err())
				}
			}, policy.MaxRun(time.Minute)))
		})
		s.do(payment("k"))
		testkit.Equal(t, s.events.warned, map[bool]int{false: 1, true: 0}[fallback], "warnings")
	})
}

// Case 81: one warning for a guard, at the first run of a handler.
func TestWarningAboutGinsContext(t *testing.T) {
	t.Parallel()
	s := startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
		h := gin.WrapF(created)
		e.POST("/payments", g.Handle(h))
		e.POST("/refunds", g.Policy(), h)
		e.POST("/observed", g.Handle(h, policy.ObserveOnly(true)))
		e.POST("/optional", g.Handle(h, policy.Required(false)))
	})
	for _, silent := range []*http.Request{
		post("/observed", "k", amount), post("/optional", "", amount, withoutKey), payment(""),
	} {
		s.do(silent)
	}
	testkit.Equal(t, s.events.warned, 0, "warnings before the first run")
	for _, key := range []string{"a", "a", "b", "c"} {
		s.do(payment(key))
		s.do(post("/refunds", key, amount))
	}
	testkit.Equal(t, s.events.warned, 1, "warnings")
}

// Case 81: the warning is a line of the log, and names the setting.
func TestLogOfTheWarningAboutGinsContext(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := gin.New()
	guard := idemgin.New(engineFor(t, core.WithObserver(event.Log(slog.New(slog.NewTextHandler(&log, nil))))))
	e.POST("/payments", guard.Handle(gin.WrapF(created)))
	(&service{Handler: e, TB: t}).do(payment("k"))
	if line, _, _ := strings.Cut(log.String(), "\n"); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "result=wrong_setup") || !strings.Contains(line, "ContextWithFallback") {
		t.Errorf("the first line is %q", line)
	}
	for fallback, want := range map[bool]int{false: 1, true: 0} {
		e.ContextWithFallback = fallback
		if named := strings.Count(strings.Join(idemgin.Audit(e, guard).Warnings, "\n"), "ContextWithFallback of the gin engine is false"); named != want {
			t.Errorf("Audit names the setting %d times, want %d", named, want)
		}
	}
}
