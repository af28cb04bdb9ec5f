package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/felixge/httpsnoop"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
)

// observe serves a request that has a key, on a route that only observes. The handler
// runs with the writer, the context and the body of an unguarded request. Events report
// the decisions that a guard would make. For that the engine claims and settles the
// keys at the store, without storing responses. Failures are reported and do not
// change the response. An unreachable store delays the request by StoreTimeout.
func (x *exchange) observe(a *attempt) {
	r, original := x.r, x.r
	watched := &observedContext{Context: r.Context(), identity: a.identity}
	body, refusal := a.body, (*problem.Problem)(nil)
	if a.route.keyField == nil {
		body, refusal = wire.PeekBody(r, a.route.policy.MaxRequestBytes)
	}
	r = r.WithContext(watched)
	defer func() { wire.HandBack(r, original) }()
	x.r = r
	if refusal != nil {
		x.refuse(a, refusal)
		return
	}
	a.readRequest(r, body)
	decision := a.begin(watched)
	if decision.Run == nil {
		x.next.ServeHTTP(x.w, r)
		return
	}
	watched.marks.Store(&decision.Run.marks)
	watch(x.w, r, decision.Run, x.next)
}

// watch runs an observed handler that a guard would have run, and settles the run.
func watch(w http.ResponseWriter, r *http.Request, run *Run, next http.Handler) {
	var seen responseSeen
	outcome := failure.Outcome{Panicked: true}
	defer func() {
		run.hold.Pattern(r.Pattern)
		outcome.Status, _ = seen.sent()
		var response Response
		response, run.wouldKeep = seen.response(r, w.Header(), outcome.Panicked, run.identity.route.policy.MaxResponseBytes)
		_ = run.end(outcome, response) // Finish reports failures
	}()
	seen.watch(w, func(w http.ResponseWriter) { next.ServeHTTP(w, r) })
	outcome.Panicked = false
}

// serveUnguarded serves a method that the policy does not guard. It reports a PUT or DELETE,
// once for each route: both methods change resources, and are not among the default Methods.
// A request without a handler, which any client can send, is none.
func serveUnguarded(s *shared, w http.ResponseWriter, r *http.Request, route *Route, next http.Handler) {
	if r.Method != http.MethodPut && r.Method != http.MethodDelete || route.unguarded.Load() {
		next.ServeHTTP(w, r)
		return
	}
	var seen responseSeen
	defer func() { // also after a panic
		if status, _ := seen.sent(); status != http.StatusNotFound && status != http.StatusMethodNotAllowed && route.unguarded.first() {
			unread(s, r, route).report(r.Context(), &event.Event{Result: event.WrongSetup, Err: fmt.Errorf(
				"oncekey: the policy declared at %s does not guard %s: add policy.Methods(%q), or mount it on the other routes only", route.place, r.Method, r.Method)})
		}
	}()
	seen.watch(w, func(w http.ResponseWriter) { next.ServeHTTP(w, r) })
}

// skips calls the policy's SkipIf, and reports a request that it skips. A panic is
// reported, and continues or ends as the Scope's does.
func skips(s *shared, r *http.Request, route *Route) (skip bool) {
	happened := event.Event{Result: event.CallbackPanicked, Err: errors.New("oncekey: the SkipIf panicked")}
	skip = true // until SkipIf has returned
	defer func() {
		if skip {
			unread(s, r, route).report(r.Context(), &happened)
		}
		if route.observes {
			_ = recover() // of which the event tells
		}
	}()
	if skip = route.policy.SkipIf(r); skip {
		happened = event.Event{Result: event.Skipped}
	}
	return skip
}

// responseSeen records facts about a response that the guard does not buffer.
type responseSeen struct {
	metrics httpsnoop.Metrics
	router  SentWriter // or nil
	unkept  bool       // flushed or hijacked: a guard would not have kept the response
}

// SentWriter is an adapter's writer behind which the router has a writer of its own. On a
// route that only observes, the handler writes to the router's, which must not be wrapped,
// because the router would not recognize the wrapper.
type SentWriter interface {
	http.ResponseWriter
	// Sent returns the status and the number of body bytes that the handler has written.
	// Without a body the number may be negative.
	Sent() (status int, size int64)
}

func (s *responseSeen) watch(w http.ResponseWriter, serve func(http.ResponseWriter)) {
	if s.router, _ = w.(SentWriter); s.router != nil {
		serve(w)
		return
	}
	w = httpsnoop.Wrap(w, httpsnoop.Hooks{ // the wrapper has exactly the methods of the old w
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				s.unkept = true
				flush()
			}
		},
		FlushError: func(flush httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error {
				s.unkept = true
				return flush()
			}
		},
		Hijack: func(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				s.unkept = true
				return hijack()
			}
		},
	})
	s.metrics.CaptureMetrics(w, serve)
}

func (s *responseSeen) sent() (status int, size int64) {
	if s.router != nil {
		return s.router.Sent()
	}
	return s.metrics.Code, s.metrics.Written
}

// response returns the status that a guard would have stored, and whether it would have
// kept the response.
func (s *responseSeen) response(r *http.Request, header http.Header, panicked bool, limit int64) (_ Response, kept bool) {
	status, size := s.sent()
	response := Response{Status: status, Unreplayable: true}
	switch {
	case s.unkept || size > limit:
		return response, false
	case panicked: // a guard replaces the response
		response.Status = http.StatusInternalServerError
		return response, true
	default:
		length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
		return response, err != nil || !wire.EndsShort(r, response.Status, length, max(size, 0))
	}
}

// observedContext is the context of an observed handler: the request's context, and
// the marks if a guard would have run the handler. Events of the run read it meanwhile.
type observedContext struct {
	context.Context
	identity *identity
	marks    atomic.Pointer[failure.Marks] // nil when a guard would not have run the handler
}

func (c *observedContext) Value(key any) any {
	asking, is := key.(*sameRequest)
	if key == (stepKey{}) || is && asking.digest == c.identity.digest {
		return c.identity.route
	}
	if marks := c.marks.Load(); marks != nil {
		if found := marks.Value(key); found != nil {
			return found
		}
	}
	return c.Context.Value(key)
}
