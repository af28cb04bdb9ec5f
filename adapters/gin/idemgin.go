// Package idemgin guards gin routes with idempotency policies.
//
//	idem := idemgin.New(engine)
//	router.POST("/payments", idem.Handle(pay, policy.TTLHours(48)))   // one route
//	router.POST("/refunds", idem.Policy(policy.TTLHours(48)), refund) // the same, as middleware
//	group := router.Group("/v1", idem.Policy())                       // one policy for many
//	err := idemgin.Mount(router, idem, API{Pay: pay, ...})            // routes declared by a struct's tags
//	router.Use(idem.Table(table))                                     // routes guarded by a table of policies
//	report := idemgin.Audit(router, idem, table)                      // what is not guarded?
//
// Mount authentication and gin.Recovery outside of the guard. docs/middleware.md
// has the order of other middleware.
//
// Where a group and its route both have a policy, the route's counts. A policy
// that the outer one cannot see, because another function calls it, makes the
// request fail with 500 wrong_setup before the handler runs. Both declarations are
// named.
//
// A handler that calls c.Error and writes nothing leaves the response to
// middleware outside, and the key is released. After failure.MarkExecuted the
// guard responds with 500 and keeps that. An error that failure.Retryable wraps
// releases the key too. Error middleware inside of the guard writes a response that
// is stored. A handler that calls HandleContext responds past the guard: its
// response is not replayed, a retry gets 409 not_replayable.
//
// Middleware outside that runs the handlers on another goroutine, as
// gin-contrib/timeout does, must not share its context with the guard. There,
// Handle gives its handler a context of its own, and what the handler sets in it
// (Keys, Errors) stays in it. Policy, Table, and a Handle with handlers after it,
// respond with 500 wrong_setup. Use policy.MaxRun, or http.TimeoutHandler around
// the gin engine. gin-contrib/timeout before v1.1.0 loses statuses and headers.
//
// The package translates and decides nothing: the rules are in package core.
package idemgin

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// Guard declares policies on gin routes. It is safe for concurrent use.
type Guard struct{ engine *core.Engine }

// New returns a guard that works with engine. It panics when engine is nil.
func New(engine *core.Engine) *Guard {
	if engine == nil {
		panic("idemgin: New is given a nil engine: give the one that core.New returned")
	}
	return &Guard{engine}
}

func (g *Guard) mustEngine() *core.Engine {
	if g == nil || g.engine == nil {
		panic("idemgin: the guard is nil: make it with idemgin.New")
	}
	return g.engine
}

// Policy returns a middleware for a route, a group or the router. It panics
// when the policy is wrong, as gin does when a pattern is.
func (g *Guard) Policy(opts ...policy.Option) gin.HandlerFunc {
	guarded := g.guarded((*gin.Context).Next, g.mustEngine().MustRoute(opts...))
	guarded.isMiddleware = true
	return guarded.serve
}

// Handle returns handler, guarded. It panics when the policy is wrong or handler
// is nil.
func (g *Guard) Handle(handler gin.HandlerFunc, opts ...policy.Option) gin.HandlerFunc {
	if handler == nil {
		panic("idemgin: Handle is given a nil handler: give the one to guard")
	}
	return g.handle(handler, g.mustEngine().MustRoute(opts...))
}

func (g *Guard) handle(handler gin.HandlerFunc, route *core.Route) gin.HandlerFunc {
	return g.guarded(handler, route).serve
}

func (g *Guard) guarded(handler gin.HandlerFunc, route *core.Route) *guarded {
	return &guarded{
		cover:   declared.Cover{Engine: g.engine, Route: route},
		routeOf: func(*gin.Context) *core.Route { return route },
		handler: handler,
	}
}

// guarded is a handler that is guarded, by a policy or by a table. Policy, Handle
// and Table return method values of it, which Audit knows again.
type guarded struct {
	cover        declared.Cover
	routeOf      func(*gin.Context) *core.Route // nil: the request is not guarded
	handler      gin.HandlerFunc
	isMiddleware bool // handler is the rest of the chain
}

func (h *guarded) serve(c *gin.Context) {
	if c.Request == nil { // Audit asks
		c.Set(guardedKey, h)
		return
	}
	route := h.routeOf(c)
	if route == nil || h.isMiddleware && leavesToChain(c) {
		h.handler(c)
		return
	}
	c.Request.Pattern = c.FullPath() // net/http's place for it, which gin leaves empty
	if !route.Guards(c.Request.Method) || ownsContext(c) {
		if !h.serveIn(c, route) {
			c.Abort()
		}
		return
	}
	if own := h.apart(c); own != nil {
		h.serveApart(c, own, route)
		return
	}
	passed := false
	h.cover.Engine.Refuse(c.Writer, c.Request, route, errOtherGoroutine, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		passed = true
		h.handler(c)
	}))
	if !passed {
		c.Abort()
	}
}

// leavesToChain reports whether a policy on a group has nothing to guard: a
// handler inside has a policy of its own, or there is no route and no handler.
func leavesToChain(c *gin.Context) bool {
	rest, known := routes.Rest(c)
	for _, handler := range rest {
		if codeOf(handler) != serveCode {
			continue
		}
		if route := ask(handler).routeOf(c); route != nil && route.Guards(c.Request.Method) {
			return true
		}
	}
	return known && len(rest) == 0 && c.FullPath() == ""
}

// serveIn serves the request of c, and returns whether the handler ran.
func (h *guarded) serveIn(c *gin.Context, route *core.Route) bool {
	s := serving{c: c, handler: h.handler, outer: final{ResponseWriter: c.Writer}}
	h.cover.Engine.Serve(&s.outer, c.Request, route, &s)
	s.outer.finish()
	return s.ran
}

// serving is one request on its way through the guard to its handler.
type serving struct {
	c       *gin.Context
	handler gin.HandlerFunc
	outer   final  // what the guard answers to
	inner   writer // what a guarded handler answers to
	ran     bool
}

// ServeHTTP is what the guard runs. The handler sees the guard's writer, if there is
// one, its request and its context by way of gin's own, for as long as it runs.
func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.ran = true
	c := s.c
	before := c.Request
	if r == before { // not guarded: c may be another request's afterwards
		s.handler(c)
		return
	}
	defer func() { c.Request = before }()
	c.Request = r
	c.Set(failure.ContextKey, r.Context())
	known := errorsOf(c)
	if w == http.ResponseWriter(&s.outer) { // by a policy that only observes, or not at all
		s.handler(c)
		markErrors(known.since(c), r)
		return
	}
	defer func(before gin.ResponseWriter) { c.Writer = before }(c.Writer)
	status, written := c.Writer.Status(), c.Writer.Written()
	s.inner = writer{ResponseWriter: c.Writer, captured: w, status: status, size: noWritten}
	c.Writer = &s.inner
	s.handler(c)
	errs := known.since(c)
	markErrors(errs, r)
	s.report(w, len(errs) > 0, status, written)
}

// report tells the engine what the handler has told gin: a status without a body,
// errors without a response, or a response past the guard. status and written are
// of the outer writer before the handler ran.
func (s *serving) report(w http.ResponseWriter, failed bool, status int, written bool) {
	switch {
	case !written && s.outer.Written() && !s.outer.sent: // by HandleContext, which takes gin's own writer
		core.WentAround(w, s.outer.Status())
	case s.inner.Written():
	case failed && !s.inner.statusSet: // an error and no response is no 200
		s.outer.ResponseWriter.WriteHeader(http.StatusInternalServerError)
		core.LeaveToRouter(w, http.StatusInternalServerError)
	case s.c.FullPath() == "" && s.inner.status == status:
		s.inner.writeNoRoute()
	case s.inner.statusSet || status != http.StatusOK: // gin writes it after the last handler
		s.inner.WriteHeaderNow()
	}
}

// seenErrors are the errors that a context had before its handler.
type seenErrors struct {
	n    int
	last *gin.Error
}

func errorsOf(c *gin.Context) seenErrors { return seenErrors{len(c.Errors), c.Errors.Last()} }

// since returns the handler's errors; it may have removed those from before.
func (s seenErrors) since(c *gin.Context) []*gin.Error {
	if s.n > len(c.Errors) || s.n > 0 && c.Errors[s.n-1] != s.last {
		return c.Errors
	}
	return c.Errors[s.n:]
}

// markErrors passes on the marks that the handler's errors carry.
func markErrors(errs []*gin.Error, r *http.Request) {
	for _, err := range errs {
		switch {
		case failure.IsUncertain(err.Err):
			failure.MarkUncertain(r.Context(), event.ErrorTypes(err.Err))
		case failure.IsRetryable(err.Err):
			failure.MarkRetryable(r.Context(), event.ErrorTypes(err.Err))
		}
	}
}
