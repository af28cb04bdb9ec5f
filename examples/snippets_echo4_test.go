package examples_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// guardEchoV4 guards a route of echo v4.
func guardEchoV4(engine *core.Engine, opts ...policy.Option) echo.MiddlewareFunc {
	route := engine.MustRoute(opts...)
	guard := echo.WrapMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { engine.Serve(w, r, route, next) })
	})
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		guarded := guard(func(c echo.Context) error {
			if err := next(c); err != nil {
				c.Error(err)
			}
			return nil
		})
		return func(c echo.Context) error {
			defer c.SetResponse(c.Response()) // middleware outside responds to a panic
			defer c.SetRequest(c.Request())
			c.Request().Pattern = c.Path() // for events; echo v5 sets it
			return guarded(c)
		}
	}
}

func TestOnEchoV4(t *testing.T) {
	t.Parallel()
	engine, e := newEngine(t), echo.New()
	runs, logged := 0, []int(nil)
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // a log, as echo's own
		return func(c echo.Context) error {
			c.Response().Before(func() { c.Response().Header().Set("X-Began", "yes") })
			err := next(c)
			if err != nil {
				c.Error(err)
			}
			if c.Request().Context().Err() == nil {
				logged = append(logged, c.Response().Status)
			}
			return err
		}
	}, middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true}))
	pay := func(c echo.Context) error {
		runs++
		if err := fateOf(c.Request(), func(status int) error { return echo.NewHTTPError(status, "no") }); err != nil {
			return err
		}
		return c.String(http.StatusCreated, "paid")
	}
	e.POST("/payments", pay, guardEchoV4(engine, policy.TTLHours(48)))
	wantFates(t, e, &logged, &runs)
}
