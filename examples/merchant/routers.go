package main

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/adapters/commerce"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// guard keeps the idempotency rules of one protocol.
type guard struct {
	engine *core.Engine
	policy []policy.Option
}

// newGuard takes the rules from the protocol's profile. Both protocols share the store.
//
// An abandoned attempt runs again, which is the default of OnAbandoned: each effect of a
// handler here happens once for a key, however often it is attempted (shop.go).
func newGuard(profile commerce.Profile, s settings, b *backend) (guard, error) {
	engine, err := core.New(b.records, core.ScopeBy(clientOf), profile.Options()...)
	return guard{engine, []policy.Option{policy.From(profile.Policy), policy.LockTTL(s.lockTTL)}}, err
}

// newHandler serves both protocols on the chosen router.
func newHandler(s settings, b *backend) (http.Handler, []*core.Engine, error) {
	forACP, err := newGuard(commerce.ACP(), s, b)
	if err != nil {
		return nil, nil, err
	}
	forUCP, err := newGuard(commerce.UCP(), s, b)
	if err != nil {
		return nil, nil, err
	}
	mount := chiRouter
	if s.router == "gin" {
		mount = ginRouter
	}
	return mount(&shop{b.db, b.charge}, forACP, forUCP), []*core.Engine{forACP.engine, forUCP.engine}, nil
}

func chiRouter(s *shop, forACP, forUCP guard) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer) // outside the guard: the engine settles a panic before this recovers
	r.Get("/charges", s.showCharges)
	r.Group(func(r chi.Router) {
		c, once := checkout{s, acp{}}, idemchi.New(forACP.engine).Policy(forACP.policy...)
		r.Use(c.form.identify) // before the guard: a refused request leaves its key unused
		r.With(once).Post("/checkout_sessions", c.serve(http.StatusCreated, c.create))
		r.With(once).Post("/checkout_sessions/{id}", c.serve(http.StatusOK, c.update))
		r.With(once).Post("/checkout_sessions/{id}/complete", c.serve(http.StatusOK, c.complete))
		r.With(once).Post("/checkout_sessions/{id}/cancel", c.serve(http.StatusOK, c.cancel))
		r.Get("/checkout_sessions/{id}", c.serve(http.StatusOK, c.show))
	})
	r.Group(func(r chi.Router) {
		c, once := checkout{s, ucp{}}, idemchi.New(forUCP.engine).Policy(forUCP.policy...)
		r.Use(c.form.identify)
		r.With(once).Post("/checkout-sessions", c.serve(http.StatusCreated, c.create))
		r.With(once).Put("/checkout-sessions/{id}", c.serve(http.StatusOK, c.update))
		r.With(once).Post("/checkout-sessions/{id}/complete", c.serve(http.StatusOK, c.complete))
		r.With(once).Post("/checkout-sessions/{id}/cancel", c.serve(http.StatusOK, c.cancel))
		r.Get("/checkout-sessions/{id}", c.serve(http.StatusOK, c.show))
	})
	return r
}

func ginRouter(s *shop, forACP, forUCP guard) http.Handler {
	gin.SetMode(gin.ReleaseMode) // the debug mode prints to standard output
	e := gin.New()
	e.ContextWithFallback = true // a handler's c ends with its run
	e.Use(gin.Recovery())        // outside the guard: the engine settles a panic before this recovers
	e.GET("/charges", gin.WrapF(s.showCharges))

	c, once := checkout{s, acp{}}, idemgin.New(forACP.engine).Policy(forACP.policy...)
	g := e.Group("/checkout_sessions", ginMiddleware(c.form.identify)) // before the guard: a refused request leaves its key unused
	g.POST("", once, ginHandler(c.serve(http.StatusCreated, c.create)))
	g.POST("/:id", once, ginHandler(c.serve(http.StatusOK, c.update)))
	g.POST("/:id/complete", once, ginHandler(c.serve(http.StatusOK, c.complete)))
	g.POST("/:id/cancel", once, ginHandler(c.serve(http.StatusOK, c.cancel)))
	g.GET("/:id", ginHandler(c.serve(http.StatusOK, c.show)))

	c, once = checkout{s, ucp{}}, idemgin.New(forUCP.engine).Policy(forUCP.policy...)
	g = e.Group("/checkout-sessions", ginMiddleware(c.form.identify))
	g.POST("", once, ginHandler(c.serve(http.StatusCreated, c.create)))
	g.PUT("/:id", once, ginHandler(c.serve(http.StatusOK, c.update)))
	g.POST("/:id/complete", once, ginHandler(c.serve(http.StatusOK, c.complete)))
	g.POST("/:id/cancel", once, ginHandler(c.serve(http.StatusOK, c.cancel)))
	g.GET("/:id", ginHandler(c.serve(http.StatusOK, c.show)))
	return e
}

// ginHandler passes gin's parameter to a handler for net/http.
func ginHandler(handler http.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Request.SetPathValue("id", c.Param("id"))
		handler(c.Writer, c.Request)
	}
}

// ginMiddleware runs the chain behind it if the middleware calls its next handler.
func ginMiddleware(use func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		use(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed, c.Request = true, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}
