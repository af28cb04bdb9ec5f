package foreign

import (
	"context"
	"net/http"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core/internal/foreign/oapigin"
	"github.com/oncekey/oncekey/core/problem"
)

// wrong are programs whose guard stands where the handler does not run inside of it: a
// framework calls middleware as functions, and then the handler.
var wrong = []program{
	{name: "oapi-codegen on gin, its Middlewares", mount: oapiMiddlewareOnGin},
	{name: "huma on gin, guard in huma's middleware", mount: humaMiddlewareOnGin},
	{name: "gin, a table called as a function", mount: calledOnGin},
}

// Case 83
func TestWrongPlaces(t *testing.T) {
	t.Parallel()
	for _, p := range wrong {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.start(t, func(context.Context) error { return nil })
			for range 2 {
				got := c.send(1)
				c.want(got.status == http.StatusInternalServerError && got.code == problem.WrongSetup, "got %s", got)
			}
			c.wantEffects(0)
			if err := c.fault(); err != nil {
				t.Error(err)
			}
		})
	}
}

func oapiMiddlewareOnGin(a *app) http.Handler {
	r := gin.Default()
	oapigin.RegisterHandlersWithOptions(r, oapigin.NewStrictHandler(ginServer{a}, nil), oapigin.GinServerOptions{
		Middlewares: []oapigin.MiddlewareFunc{oapigin.MiddlewareFunc(idemgin.New(a.engine).Policy(a.policy...))},
	})
	return r
}

func humaMiddlewareOnGin(a *app) http.Handler {
	guard := idemgin.New(a.engine).Policy(a.policy...)
	r := gin.Default()
	api := humagin.New(r, huma.DefaultConfig("Payments", "1.0.0"))
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		c := humagin.Unwrap(ctx)
		if guard(c); !c.IsAborted() {
			next(ctx)
		}
	})
	a.register(api)
	return r
}

func calledOnGin(a *app) http.Handler {
	guard := idemgin.New(a.engine).Table(a.table())
	r := gin.Default()
	r.POST("/payments", func(c *gin.Context) {
		if guard(c); c.IsAborted() {
			return
		}
		var in order
		if err := c.ShouldBindJSON(&in); err != nil {
			c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
			return
		}
		id, err := a.pay(c.Request.Context(), in.Amount)
		if err != nil {
			c.JSON(http.StatusInternalServerError, gin.H{"error": err.Error()})
			return
		}
		c.JSON(http.StatusCreated, payment{id})
	})
	return r
}
