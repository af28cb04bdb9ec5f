// Package idemgin guards gin routes with idempotency policies.
//
//	idem := idemgin.New(engine)
//	router.POST("/payments", idem.Handle(pay, policy.TTLHours(48)))   // one route
//	router.POST("/refunds", idem.Policy(policy.TTLHours(48)), refund) // one route, by middleware
//	group := router.Group("/v1", idem.Policy())                       // one policy for many
//	err := idemgin.Mount(router, idem, API{Pay: pay, ...})            // routes declared by a struct's tags
//	router.Use(idem.Table(table))                                     // routes guarded by a table of policies
//	report := idemgin.Audit(router, idem, table)                      // lists unguarded routes
//
// Mount authentication and gin.Recovery outside the guard. docs/guarding.md has the
// order of other middleware.
//
// Set ContextWithFallback on the gin engine. Without it gin keeps a handler's
// *gin.Context from ending, so that code with that context as its context.Context notices
// neither policy.MaxRun nor a lost lease. The guard reports this once, as
// event.WrongSetup, and Audit warns. Marks, keys, steps and transactions work in any case.
//
// If a group and its route both have a policy, the route's policy applies. If another
// function calls the inner policy, the outer policy cannot see it. Such a request
// fails with 500 wrong_setup before the handler runs, and the error names both
// declarations.
//
// A policy or table behind which gin calls no handler responds with 500 wrong_setup: it
// stands after the handler, or a function calls it and then the handler. Where a function
// calls the handler, call the result of Handle.
//
// A handler that calls c.Error without a response leaves the response to outer
// middleware, and the guard releases the key. After failure.MarkExecuted the guard
// responds with 500 and stores the 500. An error that failure.Retryable wraps releases
// the key too. A status is a response, as c.AbortWithError writes it: the guard stores the
// status without the body that outer middleware adds. The guard stores a response of error
// middleware inside the guard. A handler that calls HandleContext bypasses the guard's
// writer: its response is not replayed, and a retry gets 409 not_replayable.
//
// Outer middleware that runs the handlers on another goroutine, as gin-contrib/timeout
// does, must not share its context with the guard. Handle then gives its handler a
// separate context, and Keys and Errors set there do not reach outer middleware.
// Policy, Table, and a Handle followed by other handlers, respond with 500 wrong_setup,
// and so does a Handle behind middleware that keeps gin's own writer. Use policy.MaxRun, or
// http.TimeoutHandler around the gin engine. gin-contrib/timeout before v1.1.0 loses
// statuses and headers.
//
// The package only connects gin with package core, which has all rules.
package idemgin

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// Guard declares policies on gin routes. It is safe for concurrent use.
type Guard struct {
	engine *core.Engine
	warned atomic.Bool // see warnOnce
	tables declared.Tables
}

// New returns a guard that uses engine. It panics when engine is nil.
func New(engine *core.Engine) *Guard {
	if engine == nil {
		panic("idemgin: New is given a nil engine: give the engine from core.New")
	}
	return &Guard{engine: engine}
}

func (g *Guard) mustEngine() *core.Engine {
	if g == nil {
		panic("idemgin: the guard is nil: make it with idemgin.New")
	}
	return g.engine
}

// Policy returns a middleware for a route, a group or the router. It panics when the
// policy is invalid, as gin does for an invalid pattern.
func (g *Guard) Policy(opts ...policy.Option) gin.HandlerFunc {
	guarded := g.guarded((*gin.Context).Next, declared.MustRoute(g.mustEngine(), declared.Place(), opts))
	guarded.isMiddleware = true
	return guarded.serve
}

// Handle returns a guarded handler. It panics when the policy is invalid or handler
// is nil.
func (g *Guard) Handle(handler gin.HandlerFunc, opts ...policy.Option) gin.HandlerFunc {
	if handler == nil {
		panic("idemgin: Handle is given a nil handler: give the handler to guard")
	}
	return g.guarded(handler, declared.MustRoute(g.mustEngine(), declared.Place(), opts)).serve
}

func (g *Guard) guarded(handler gin.HandlerFunc, route *core.Route) *guarded {
	return &guarded{
		guard:   g,
		cover:   declared.Cover{Engine: g.engine, Route: route},
		routeOf: func(*gin.Context) *core.Route { return route },
		handler: handler,
	}
}

// guarded is a handler that a policy or a table guards. Policy, Handle and Table
// return its method values, which Audit recognizes.
type guarded struct {
	guard        *Guard
	cover        declared.Cover
	routeOf      func(*gin.Context) *core.Route // nil: the request is not guarded
	handler      gin.HandlerFunc
	isMiddleware bool        // handler is the rest of the chain
	looked       atomic.Bool // see warnOnce
}

func (h *guarded) serve(c *gin.Context) {
	if c.Request == nil { // Audit's probe
		c.Set(guardedKey, h)
		return
	}
	route, misplaced := h.find(c)
	if route == nil {
		h.handler(c)
		return
	}
	c.Request.Pattern = c.FullPath() // gin leaves net/http's field empty
	routes.PutBodyBack(c)
	switch {
	case !route.Guards(c.Request.Method) && h.cover.Table != nil:
		h.refuse(c, route, fmt.Errorf("%w, and it wrote %s", errWrittenMethod, c.Request.Method))
	case !route.Guards(c.Request.Method):
		h.serveIn(c, route)
	case misplaced:
		h.refuse(c, route, fmt.Errorf("%w: it is declared at %s", errNothingBehind, route.DeclaredAt()))
	case ownsContext(c):
		if !h.serveIn(c, route) {
			c.Abort()
		}
	default:
		if own := h.apart(c); own != nil {
			h.serveApart(c, own, route)
			return
		}
		h.refuse(c, route, errOtherGoroutine)
	}
}

// find returns the policy for a request, or nil, and whether no handler runs behind it.
func (h *guarded) find(c *gin.Context) (route *core.Route, misplaced bool) {
	if route = h.routeOf(c); route == nil || !h.isMiddleware {
		return route, false
	}
	leaves, misplaced := place(c)
	if leaves {
		return nil, false
	}
	return route, misplaced
}

// refuse responds with 500 wrong_setup, or lets the request pass where the route only
// observes. It adds nothing to a response that a handler before the guard has written.
func (h *guarded) refuse(c *gin.Context, route *core.Route, reason error) {
	if c.Writer.Written() {
		h.cover.Engine.Warn(c.Request, route, reason)
		c.Abort()
		return
	}
	passed := false
	h.cover.Engine.Refuse(c.Writer, c.Request, route, reason, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		passed = true
		h.handler(c)
	}))
	if !passed {
		c.Abort()
	}
}

// serveIn serves the request of c and reports whether the handler ran.
func (h *guarded) serveIn(c *gin.Context, route *core.Route) bool {
	s := serving{c: c, guarded: h, route: route, outer: final{ResponseWriter: c.Writer, written: c.Writer.Written()}}
	h.cover.Engine.Serve(&s.outer, c.Request, route, &s)
	s.outer.finish(s.failed)
	return s.outer.ran
}

// serving is one request on its way through the guard to its handler.
type serving struct {
	*guarded
	c      *gin.Context
	route  *core.Route
	outer  final  // the guard writes to it
	inner  writer // a guarded handler writes to it
	failed bool   // the handler reported errors
}

var _ core.SentWriter = (*final)(nil)

// ServeHTTP runs the handler for the guard. While the handler runs, gin's context
// holds the guard's request, context and writer, if the guard has a writer.
func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.outer.ran = true
	c := s.c
	before := c.Request
	if r == before { // not guarded: c may serve another request afterwards
		s.handler(c)
		return
	}
	outer, _ := c.Get(failure.ContextKey)
	defer func() {
		c.Request = before
		c.Set(failure.ContextKey, outer) // outer middleware must not find a run that has ended
	}()
	c.Request = r
	c.Set(failure.ContextKey, r.Context())
	known := errorsOf(c)
	defer func() { markErrors(known.since(c), r) }() // also after a panic
	if w == http.ResponseWriter(&s.outer) {          // an observing policy, or no guard
		s.handler(c)
		return
	}
	s.warnOnce(c, s.route)
	panicked := true
	defer func(before gin.ResponseWriter) {
		if c.Writer = before; panicked && !before.Written() {
			before.WriteHeader(http.StatusInternalServerError) // gin.Recovery sets none for a connection error and http.ErrAbortHandler
		}
	}(c.Writer)
	status, written := c.Writer.Status(), c.Writer.Written()
	s.inner = writer{ResponseWriter: c.Writer, captured: w, status: status, size: noWritten}
	c.Writer = &s.inner
	s.handler(c)
	panicked, s.failed = false, len(known.since(c)) > 0
	s.report(w, status, written)
}

// report passes results from gin to the engine: a status without a body, errors
// without a response, or a response that bypassed the guard. status and written are
// the outer writer's state before the handler ran.
func (s *serving) report(w http.ResponseWriter, status int, written bool) {
	switch {
	case !written && s.outer.Written(): // HandleContext used gin's own writer, or the response is on its way already
		core.WentAround(w, s.outer.Status())
	case s.inner.Written():
	case s.failed && !s.inner.statusSet: // an error without a response must not become a 200
		s.outer.ResponseWriter.WriteHeader(http.StatusInternalServerError)
		core.LeaveToRouter(w, http.StatusInternalServerError)
	case s.c.FullPath() == "" && s.inner.status == status:
		s.inner.writeNoRoute()
	case s.inner.statusSet || status != http.StatusOK: // gin writes the status after the last handler
		s.inner.WriteHeaderNow()
	}
}

// seenErrors describes the errors of a context before its handler ran.
type seenErrors struct {
	n    int
	last *gin.Error
}

func errorsOf(c *gin.Context) seenErrors { return seenErrors{len(c.Errors), c.Errors.Last()} }

// since returns the handler's errors. The handler may have removed earlier errors.
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
