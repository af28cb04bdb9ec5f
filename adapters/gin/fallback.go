package idemgin

import (
	"context"
	"errors"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core"
)

// noFallback says what gin keeps from handlers.
const noFallback = "ContextWithFallback of the gin engine is false, so a handler that passes its *gin.Context on as a context " +
	"notices neither policy.MaxRun nor a lost lease: set ContextWithFallback to true, or pass c.Request.Context()"

var errNoFallback = errors.New("idemgin: " + noFallback)

// warnOnce reports once for each Guard that handlers cannot notice the end of their run by
// their *gin.Context. Each declaration looks at its first run, because one Guard may serve
// several gin engines.
func (h *guarded) warnOnce(c *gin.Context, route *core.Route) {
	if h.looked.Load() || h.looked.Swap(true) || followsRequest(c) || h.guard.warned.Swap(true) {
		return
	}
	h.cover.Engine.Warn(c.Request, route, errNoFallback)
}

type probeKey struct{}

// followsRequest reports whether c ends with its request's context.
func followsRequest(c *gin.Context) bool {
	own := c.Copy()
	own.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), probeKey{}, true))
	return own.Value(probeKey{}) != nil
}
