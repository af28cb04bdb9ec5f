package adapters_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// counting returns a function for a step that counts its calls.
func counting(calls *int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		*calls++
		return *calls, nil
	}
}

// Requests that the guard lets through call the function each time.
func TestStepsOfRequestsThatPass(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		policy  policy.Option
		changes []func(*http.Request)
	}{
		"observe-only": {policy.ObserveOnly(true), nil},
		"no key":       {policy.Required(false), []func(*http.Request){withoutKey}},
		"SkipIf":       {policy.SkipIf(func(*http.Request) bool { return true }), nil},
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			calls := 0
			s := m.start(t, program{policy: []policy.Option{row.policy}, handler: func(_ http.ResponseWriter, r *http.Request) {
				if _, err := core.Step(r.Context(), "charge", counting(&calls)); err != nil {
					t.Error(err)
				}
			}})
			for range 2 {
				s.runsAgain(payment("k", row.changes...))
			}
			testkit.Equal(t, calls, 2, "calls of the function")
		})
	}
}

// Methods that the policy does not guard have no guard, and Step says so.
func TestStepOfAnUnguardedMethod(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		calls := 0
		s := m.start(t, program{policy: []policy.Option{policy.Methods(http.MethodPatch)}, handler: func(_ http.ResponseWriter, r *http.Request) {
			if _, err := core.Step(r.Context(), "charge", counting(&calls)); err == nil || !strings.Contains(err.Error(), "no guarded run") {
				t.Errorf("Step returned %v", err)
			}
		}})
		s.runsAgain(payment("k"))
		testkit.Equal(t, calls, 0, "the function was called")
	})
}

// gin's handlers use *gin.Context as their context, which by default does not include the
// request's context.
func TestStepsOnGinsContext(t *testing.T) {
	t.Parallel()
	for name, fallback := range map[string]bool{"default": false, "ContextWithFallback": true} {
		for how, derive := range derived {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				ran := false
				s := startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
					e.ContextWithFallback = fallback
					e.POST("/payments", g.Handle(func(c *gin.Context) {
						ctx, cancel := derive(c)
						defer cancel()
						_, err := core.Step(ctx, "charge", func(inner context.Context) (int, error) {
							if core.KeyFrom(inner) != "k" || core.DeriveKey(inner, "charge") != core.DeriveKey(c.Request.Context(), "charge") {
								t.Errorf("the key is %q", core.KeyFrom(inner))
							}
							if !markRetryable(inner) {
								t.Error("the mark does not count")
							}
							if _, err := core.Step(inner, "ship", counting(new(int))); err == nil || !strings.Contains(err.Error(), "inside another step") {
								t.Errorf("a step in a step got %v", err)
							}
							return 1, nil
						})
						ran = true
						testkit.Equal(t, err != nil, how == "already cancelled", "Step returned %v", err)
					}))
				})
				if s.do(payment("k")); !ran {
					t.Error("the handler did not run")
				}
			})
		}
	}
}
