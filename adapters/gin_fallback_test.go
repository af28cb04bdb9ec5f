package adapters_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/policy"
)

// Case 81: a handler's *gin.Context ends with its run if ContextWithFallback of the engine
// is true, and never otherwise. Then the guard says so.
func TestEndOfTheRunOnGinsContext(t *testing.T) {
	t.Parallel()
	for name, fallback := range map[string]bool{"default": false, "ContextWithFallback": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
				if want := map[bool]int{false: 1, true: 0}[fallback]; s.events.warned != want {
					t.Errorf("got %d warnings, want %d", s.events.warned, want)
				}
			})
		})
	}
}

// Case 81: one warning for a guard, at the first run of a handler.
func TestWarningAboutGinsContext(t *testing.T) {
	t.Parallel()
	s := startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
		h := gin.WrapF(created)
		e.POST("/payments", g.Handle(h))
		e.POST("/refunds", g.Policy(), h)
		e.POST("/observed", g.Handle(h, policy.Observe(true)))
		e.POST("/optional", g.Handle(h, policy.Required(false)))
	})
	for _, silent := range []*http.Request{
		post("/observed", "k", amount), post("/optional", "", amount, withoutKey), payment(""),
	} {
		s.do(silent)
	}
	if s.events.warned != 0 {
		t.Errorf("got %d warnings before the first run", s.events.warned)
	}
	for _, key := range []string{"a", "a", "b", "c"} {
		s.do(payment(key))
		s.do(post("/refunds", key, amount))
	}
	if s.events.warned != 1 {
		t.Errorf("got %d warnings, want 1", s.events.warned)
	}
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
