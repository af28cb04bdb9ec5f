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
// Mount what authenticates, and gin.Recovery, outside the guard, and what makes
// an answer of c.Errors inside: the guarded answer is final. A handler that
// gives c.Error an error and no answer has answered 500; an error that
// failure.Retryable has wrapped frees the key. Where a group's
// policy and a route's both guard a request, the outer one counts, and an event
// says so. The package translates and decides nothing: the rules are in package
// core.
package idemgin

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// Guard declares policies on gin routes. It is safe for concurrent use.
type Guard struct{ engine *core.Engine }

// New returns a guard that works with engine.
func New(engine *core.Engine) *Guard { return &Guard{engine} }

// Policy returns a middleware for a route, a group or the router. It panics
// when the policy is wrong, as gin does when a pattern is.
func (g *Guard) Policy(opts ...policy.Option) gin.HandlerFunc {
	return g.Handle((*gin.Context).Next, opts...)
}

// Handle returns handler, guarded. It panics when the policy is wrong.
func (g *Guard) Handle(handler gin.HandlerFunc, opts ...policy.Option) gin.HandlerFunc {
	return g.handle(handler, g.engine.MustRoute(opts...))
}

func (g *Guard) handle(handler gin.HandlerFunc, route *core.Route) gin.HandlerFunc {
	routeOf := func(*gin.Context) *core.Route { return route }
	return (&guarded{declared.Cover{Engine: g.engine, Route: route}, routeOf, handler}).serve
}

// guarded is a handler that is guarded, by a policy or by a table. Policy, Handle
// and Table return method values of it, which Audit knows again.
type guarded struct {
	cover   declared.Cover
	routeOf func(*gin.Context) *core.Route // nil: the request is not guarded
	handler gin.HandlerFunc
}

func (h *guarded) serve(c *gin.Context) {
	if c.Request == nil { // Audit asks
		c.Set(coverKey, h.cover)
		return
	}
	route := h.routeOf(c)
	if route == nil {
		h.handler(c)
		return
	}
	c.Request.Pattern = c.FullPath() // net/http's place for it, which gin leaves empty
	s := serving{c: c, handler: h.handler, outer: final{c.Writer}}
	h.cover.Engine.Serve(&s.outer, c.Request, route, &s)
	if !s.ran {
		c.Abort()
	}
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
	if before := c.Request; r != before {
		defer func() { c.Request = before }()
		c.Request = r
		c.Set(failure.ContextKey, r.Context())
	}
	errorsBefore := len(c.Errors)
	if w == http.ResponseWriter(&s.outer) { // not guarded, or by a policy that only observes
		s.handler(c)
		markRetryable(c.Errors[errorsBefore:], r)
		return
	}
	defer func(before gin.ResponseWriter) { c.Writer = before }(c.Writer)
	s.inner = writer{ResponseWriter: c.Writer, captured: w, status: http.StatusOK, size: noWritten}
	c.Writer = &s.inner
	s.handler(c)
	report(c.Errors[errorsBefore:], &s.inner, r)
}

// report tells the engine what the handler has told gin: errors, and a status
// without a body.
func report(errs []*gin.Error, w *writer, r *http.Request) {
	markRetryable(errs, r)
	if len(errs) > 0 && !w.statusSet && !w.Written() {
		w.WriteHeader(http.StatusInternalServerError) // an error and no answer is no 200
	}
	if w.statusSet { // gin writes it after the last handler
		w.WriteHeaderNow()
	}
}

func markRetryable(errs []*gin.Error, r *http.Request) {
	for _, err := range errs {
		if failure.IsRetryable(err.Err) {
			failure.MarkRetryable(r.Context(), err.Error())
		}
	}
}
