package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

func ginRouter(s *shop, engine *core.Engine, times times) http.Handler {
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
	e.GET("/ledger", gin.WrapF(s.showLedger))
	e.GET("/attempts", gin.WrapF(s.showAttempts))
	g := e.Group("/", ginAuthenticate) // before the guard: the engine needs the user, and replays only to the same user
	g.POST("/payments", idem.Handle(gin.WrapF(s.pay), money...))
	g.POST("/refunds", idem.Handle(gin.WrapF(s.refund), money...))
	g.POST("/members", idem.Handle(gin.WrapF(s.createMember)))
	g.PATCH("/members/:id", idem.Handle(ginChangeMember(s), policy.Required(false)))
	g.POST("/notes", idem.Handle(gin.WrapF(s.createNote), policy.OnStoreError(policy.FailOpen)))
	if s.bank != nil {
		e.GET("/balances", gin.WrapF(s.showBalances))
		g.POST("/transfers", idem.Handle(gin.WrapF(s.transfer), append(money, policy.Transactional(true))...))
	}
	return e
}

// ginAuthenticate is authenticate for gin.
func ginAuthenticate(c *gin.Context) {
	r, known := withUser(c.Request)
	if !known {
		refuseStranger(c.Writer)
		c.Abort()
		return
	}
	c.Request = r
}

// ginChangeMember passes gin's parameter to a handler for net/http.
func ginChangeMember(s *shop) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Request.SetPathValue("id", c.Param("id"))
		s.changeMember(c.Writer, c.Request)
	}
}
