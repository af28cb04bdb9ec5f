package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/examples/payments/internal/shop"
	"github.com/oncekey/oncekey/policy"
)

func ginRouter(s service, engine *core.Engine, times times) http.Handler {
	idem := idemgin.New(engine)
	money := []policy.Option{
		policy.TTLHours(48),
		policy.LockTTL(times.lockTTL),
		policy.StoreTimeout(times.storeTimeout),
		policy.ExcludeFields("clientTimestamp", "requestNonce"),
	}

	gin.SetMode(gin.ReleaseMode) // the debug mode prints to standard output
	e := gin.New()
	e.ContextWithFallback = true // a handler's c ends with its run
	e.Use(gin.Recovery())        // outside the guard: the engine settles a panic before this recovers
	e.GET("/ledger", gin.WrapF(s.ShowLedger))
	e.GET("/attempts", gin.WrapF(s.ShowAttempts))
	g := e.Group("/", ginAuthenticate) // before the guard: the engine needs the user, and replays only to the same user
	g.POST("/payments", idem.Handle(gin.WrapF(s.pay), money...))
	g.POST("/refunds", idem.Handle(gin.WrapF(s.refund), money...))
	g.POST("/members", idem.Handle(gin.WrapF(s.CreateMember)))
	g.PATCH("/members/:id", idem.Handle(ginChangeMember(s), policy.Required(false)))
	g.POST("/notes", idem.Handle(gin.WrapF(s.CreateNote), policy.OnStoreError(policy.FailOpen)))
	if s.Bank != nil {
		e.GET("/balances", gin.WrapF(s.ShowBalances))
		g.POST("/transfers", idem.Handle(gin.WrapF(s.transfer), append(money, policy.Transactional(true))...))
	}
	return e
}

// ginAuthenticate is shop.Authenticate for gin.
func ginAuthenticate(c *gin.Context) {
	r, known := shop.WithUser(c.Request)
	if !known {
		shop.RefuseStranger(c.Writer)
		c.Abort()
		return
	}
	c.Request = r
}

// ginChangeMember passes gin's parameter to a handler for net/http.
func ginChangeMember(s service) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Request.SetPathValue("id", c.Param("id"))
		s.ChangeMember(c.Writer, c.Request)
	}
}
