package foreign

import (
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	fiberv2 "github.com/gofiber/fiber/v2"
	adaptorv2 "github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gorilla/mux"
	echov4 "github.com/labstack/echo/v4"
	middlewarev4 "github.com/labstack/echo/v4/middleware"
	"github.com/labstack/echo/v5"
	middlewarev5 "github.com/labstack/echo/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// routers are programs on routers alone.
var routers = []program{
	{name: "http.ServeMux", mount: onServeMux, aborts: true},
	{name: "gorilla/mux", mount: onGorilla, aborts: true},
	{name: "chi, path rewritten inside of a table", mount: onRewritingChi, path: "/v1/payments"}, // Case 84
	{name: "echo v4", mount: onEchoV4},                                                           // Case 85
	{name: "echo v5", mount: onEchoV5},                                                           // Case 85
	{name: "fiber v2, its adaptor", mount: onFiberV2, aborts: true},
	{name: "fiber v3, its adaptor", mount: onFiberV3, aborts: true},
}

// ServeHTTP is the operation as a handler of net/http.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in order
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := a.pay(r.Context(), in.Amount)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(payment{id})
}

func onServeMux(a *app) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /payments", a.engine.Handler(a, a.policy...))
	return mux
}

func onGorilla(a *app) http.Handler {
	r := mux.NewRouter()
	r.Handle("/payments", a.engine.Handler(a, a.policy...)).Methods(http.MethodPost)
	return r
}

func onRewritingChi(a *app) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Use(idemchi.New(a.engine).Table(a.table()))
	r.Use(middleware.PathRewrite("/v1", ""))
	r.Post("/payments", a.ServeHTTP)
	return r
}

func onEchoV4(a *app) http.Handler {
	e := echov4.New()
	e.Use(middlewarev4.Recover())
	route := a.engine.MustRoute(a.policy...)
	guard := echov4.WrapMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.engine.Serve(w, r, route, next) })
	})
	e.POST("/payments", func(c echov4.Context) error {
		var in order
		if err := c.Bind(&in); err != nil {
			return err
		}
		id, err := a.pay(c.Request().Context(), in.Amount)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, payment{id})
	}, func(next echov4.HandlerFunc) echov4.HandlerFunc {
		guarded := guard(func(c echov4.Context) error {
			if err := next(c); err != nil {
				c.Error(err)
			}
			return nil
		})
		return func(c echov4.Context) error {
			defer c.SetResponse(c.Response())
			defer c.SetRequest(c.Request())
			return guarded(c)
		}
	})
	return e
}

func onEchoV5(a *app) http.Handler {
	e := echo.New()
	e.Use(middlewarev5.Recover())
	e.POST("/payments", func(c *echo.Context) error {
		var in order
		if err := c.Bind(&in); err != nil {
			return err
		}
		id, err := a.pay(c.Request().Context(), in.Amount)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, payment{id})
	}, guardEcho(a.engine, a.policy...))
	return e
}

// guardEcho is of docs/guarding.md.
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

func onFiberV2(a *app) http.Handler {
	app := fiberv2.New()
	app.Post("/payments", adaptorv2.HTTPHandler(a.engine.Handler(a, a.policy...)))
	return adaptorv2.FiberApp(app)
}

func onFiberV3(a *app) http.Handler {
	app := fiber.New()
	app.Post("/payments", adaptor.HTTPHandler(a.engine.Handler(a, a.policy...)))
	return adaptor.FiberApp(app)
}
