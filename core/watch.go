package core

import (
	"bufio"
	"context"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/oncekey/oncekey/failure"
)

// responseSeen is what is seen of an answer without touching it.
type responseSeen struct {
	metrics httpsnoop.Metrics
	router  routerWriter // or nil
	unkept  bool         // flushed or hijacked
}

// routerWriter is a router's own writer, such as gin's: it says itself what was
// written, and its router would not know it behind another.
type routerWriter interface {
	http.ResponseWriter
	Status() int
	Size() int
}

func (s *responseSeen) watch(w http.ResponseWriter, serve func(http.ResponseWriter)) {
	if s.router, _ = w.(routerWriter); s.router != nil {
		serve(w)
		return
	}
	w = httpsnoop.Wrap(w, httpsnoop.Hooks{ // it has the methods of the old w, and no others
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

func (s *responseSeen) status() int {
	if s.router != nil {
		return s.router.Status()
	}
	return s.metrics.Code
}

func (s *responseSeen) size() int64 {
	if s.router != nil {
		return int64(s.router.Size())
	}
	return s.metrics.Written
}

// observedContext is the handler's where a policy only watches: the request's
// own, and the marks, where the run of a guarded handler would have begun.
type observedContext struct {
	context.Context
	subject *subject
	marks   *failure.Marks // nil when a guard would not have run the handler
}

type observedKey struct{}

func (c *observedContext) Value(key any) any {
	if key == (observedKey{}) {
		return c.subject
	}
	if c.marks != nil {
		if marks := c.marks.Value(key); marks != nil {
			return marks
		}
	}
	return c.Context.Value(key)
}

// watchedIn returns the request that a policy outside observes, or nil.
func watchedIn(ctx context.Context) *subject {
	watched, _ := ctx.Value(observedKey{}).(*subject)
	return watched
}
