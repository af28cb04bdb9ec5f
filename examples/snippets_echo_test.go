package examples_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// guardEcho guards a route of echo v5. An error of the handler becomes a response inside
// of the guard, because the guard stores responses.
func guardEcho(engine *core.Engine, opts ...policy.Option) echo.MiddlewareFunc {
	route := engine.MustRoute(opts...)
	guard := echo.WrapMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { engine.Serve(w, r, route, next) })
	})
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		guarded := guard(func(c *echo.Context) error {
			if err := next(c); err != nil {
				c.Echo().HTTPErrorHandler(c, err)
			}
			return nil
		})
		return func(c *echo.Context) error {
			defer c.SetResponse(c.Response()) // middleware outside responds to a panic
			defer c.SetRequest(c.Request())
			return guarded(c)
		}
	}
}

// fates are the ends of a handler of echo, by the idempotency key.
var fates = []struct {
	key    string
	status int
	kept   bool
}{
	{"paid", http.StatusCreated, true},
	{"missing", http.StatusNotFound, true},
	{"wrong", http.StatusUnprocessableEntity, true},
	{"failed", http.StatusInternalServerError, false},
	{"unavailable", http.StatusServiceUnavailable, false},
	{"panicked", http.StatusInternalServerError, false},
	{"panicked-late", http.StatusInternalServerError, true},
}

// fateOf returns the error with which a handler of echo ends. newError makes an HTTPError.
func fateOf(r *http.Request, newError func(status int) error) error {
	switch core.KeyFrom(r.Context()) {
	case "missing":
		return newError(http.StatusNotFound)
	case "wrong":
		return newError(http.StatusUnprocessableEntity)
	case "failed":
		return errors.New("the provider is down")
	case "unavailable":
		return newError(http.StatusServiceUnavailable)
	case "panicked":
		panic("the provider's client is nil")
	case "panicked-late":
		failure.MarkExecuted(r.Context())
		panic("the provider's response is nil")
	}
	failure.MarkExecuted(r.Context())
	return nil
}

// Case 85: each fate of a handler, with Recover and a log outside of the guard.
func wantFates(t *testing.T, e http.Handler, logged *[]int, runs *int) {
	t.Helper()
	handle := func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		testkit.Equal(t, w.Header().Get("X-Began"), "yes", "the header that Response.Before sets")
		return w.Result()
	}
	for _, fate := range fates {
		before := *runs
		*logged = nil
		firstStatus, firstBody, first := send(t, handle, fate.key)
		status, body, replay := send(t, handle, fate.key)
		if firstStatus != fate.status || status != fate.status || firstBody == "" || body == "" || first != "" || (replay == "true") != fate.kept {
			t.Errorf("%s: got %d %q %q, then %d %q %q, want %d, kept: %t", fate.key, firstStatus, firstBody, first, status, body, replay, fate.status, fate.kept)
		}
		testkit.Equal(t, *runs-before, map[bool]int{true: 1, false: 2}[fate.kept], "%s: runs of the handler", fate.key)
		if replay == "true" && body != firstBody && fate.key != "panicked-late" { // then the record is the guard's own 500
			t.Errorf("%s: the client saw %q and then %q", fate.key, firstBody, body)
		}
		testkit.EqualSlices(t, *logged, []int{fate.status, fate.status}, "%s: middleware outside saw", fate.key)
	}
	if status, _, _ := send(t, handle, ""); status != http.StatusBadRequest {
		t.Errorf("without a key got %d, want 400", status)
	}
}

func TestOnEcho(t *testing.T) {
	t.Parallel()
	engine, e := newEngine(t), echo.New()
	runs, logged := 0, []int(nil)
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // a log, as echo's own
		return func(c *echo.Context) error {
			if response, err := echo.UnwrapResponse(c.Response()); err == nil {
				response.Before(func() { c.Response().Header().Set("X-Began", "yes") })
			}
			err := next(c)
			if err != nil {
				c.Echo().HTTPErrorHandler(c, err)
			}
			if response, unwrapErr := echo.UnwrapResponse(c.Response()); unwrapErr == nil && c.Request().Context().Err() == nil {
				logged = append(logged, response.Status)
			}
			return err
		}
	}, middleware.Recover())
	pay := func(c *echo.Context) error {
		runs++
		if err := fateOf(c.Request(), func(status int) error { return echo.NewHTTPError(status, "no") }); err != nil {
			return err
		}
		return c.String(http.StatusCreated, "paid")
	}
	e.POST("/payments", pay, guardEcho(engine, policy.TTLHours(48)))
	wantFates(t, e, &logged, &runs)
}
