package idemgin

import (
	"context"
	"errors"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/core"
)

// errNothingBehind refuses a policy whose handler gin does not call: the handler stands
// before the policy, or a function calls the policy and then the handler.
var errNothingBehind = errors.New("idemgin: gin calls no handler behind this policy, so it would guard nothing: put the policy before the handler, " +
	"as in router.POST(path, idem.Policy(), handler), or call idem.Handle(handler) where another function calls the handler")

// errWrittenMethod refuses a request of a table's route whose method is another one now.
var errWrittenMethod = errors.New("idemgin: middleware that writes the method must stand around the gin engine, or call HandleContext")

// place looks at the handlers behind a policy. The policy leaves the request to them if an
// inner handler has a policy of its own, or if gin responds to an unknown path. misplaced
// says that no handler runs behind the policy, or behind an inner one.
func place(c *gin.Context) (leaves, misplaced bool) {
	rest, known := routes.Rest(c)
	for i, handler := range rest {
		if codeOf(handler) != serveCode {
			continue
		}
		inner := guardedOf(handler)
		if route := inner.routeOf(c); route != nil && route.Guards(c.Request.Method) {
			misplaced = inner.isMiddleware && i == len(rest)-1 && c.FullPath() != ""
			return !misplaced, misplaced
		}
	}
	if !known || slices.ContainsFunc(rest, func(handler gin.HandlerFunc) bool { return handler != nil }) { // gin skips nil
		return false, false
	}
	leaves = c.FullPath() == "" && isGuard(routes.Running(c))
	return leaves, !leaves
}

// isGuard reports whether Policy, Handle or Table has returned the handler.
func isGuard(handler gin.HandlerFunc) bool { return handler != nil && codeOf(handler) == serveCode }

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
