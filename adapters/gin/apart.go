package idemgin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/core"
)

// errOtherGoroutine is why a policy is refused behind middleware that runs the
// chain on a goroutine of its own.
var errOtherGoroutine = errors.New("idemgin: middleware outside of this policy runs the handlers on another goroutine, as gin-contrib/timeout does, " +
	"and gin reuses their context while they still run: limit the handler with policy.MaxRun, or put http.TimeoutHandler around the gin engine")

// ginFunction is a function of gin that is looked for among the callers.
type ginFunction struct {
	name  string
	known atomic.Uintptr // where it calls its handlers, once that was found
}

var (
	serveHTTP = ginFunction{name: "github.com/gin-gonic/gin.(*Engine).ServeHTTP"}
	next      = ginFunction{name: "github.com/gin-gonic/gin.(*Context).Next"}
)

// ownsContext reports whether gin cannot reuse c before this function returns:
// gin's engine waits for it on the same goroutine, or c is of no engine.
func ownsContext(c *gin.Context) bool { return serveHTTP.isCalling() || c.Handler() == nil }

// isCalling reports whether the function runs on this goroutine.
func (f *ginFunction) isCalling() bool {
	var callers [64]uintptr
	known := f.known.Load()
	for skip := 2; ; skip += len(callers) {
		n := runtime.Callers(skip, callers[:])
		if known != 0 && slices.Contains(callers[:n], known) {
			return true
		}
		if call := f.callIn(callers[:n]); call != 0 {
			f.known.Store(call)
			return true
		}
		if n < len(callers) {
			return false
		}
	}
}

func (f *ginFunction) callIn(callers []uintptr) uintptr {
	for _, caller := range callers {
		if frame, _ := runtime.CallersFrames([]uintptr{caller}).Next(); frame.Function == f.name {
			return caller
		}
	}
	return 0
}

// serveApart serves a request whose context gin may reuse meanwhile.
func (h *guarded) serveApart(c, own *gin.Context, route *core.Route) {
	request, inChain := own.Request, next.isCalling()
	h.serveIn(own, route)
	own.Writer.WriteHeaderNow() // as the engine does at the end, which knows only c
	if inChain && (c.Request != request || errors.Is(request.Context().Err(), context.Canceled)) {
		runtime.Goexit() // gin's Next would go on in the chain of the request that has c now
	}
}

// ginsOwn is the type of the writer that gin reuses with its context.
var ginsOwn = reflect.TypeOf(new(gin.Context).Copy().Writer)

// apart returns a context that only the guard's handler uses, with a writer that
// reads nothing from c later. It returns nil where the handler needs c itself: it
// goes on along c's chain, or only gin's own writer is there to write to.
func (h *guarded) apart(c *gin.Context) *gin.Context {
	rest, known := routes.Rest(c)
	if h.isMiddleware || !known || len(rest) > 0 || reflect.TypeOf(c.Writer) == ginsOwn {
		return nil
	}
	own, to := c.Copy(), c.Writer
	late := &writer{ResponseWriter: noConnection{}, status: to.Status(), size: noWritten}
	late.captured = &lateWriter{to: to, header: to.Header().Clone()}
	own.Writer = late
	return own
}

// lateWriter writes to the writer of a middleware that may have responded
// already. It keeps the header to itself until it responds, because the middleware
// reads its own meanwhile. It cannot flush or hijack.
type lateWriter struct {
	to     http.ResponseWriter
	header http.Header
}

func (w *lateWriter) Header() http.Header { return w.header }

func (w *lateWriter) WriteHeader(status int) {
	if informational(status) {
		return
	}
	header := w.to.Header()
	clear(header)
	maps.Copy(header, w.header)
	w.to.WriteHeader(status)
}

func (w *lateWriter) Write(p []byte) (int, error) { return w.to.Write(p) }

// noConnection takes the place of gin's writer where the connection may be
// another request's.
type noConnection struct{ gin.ResponseWriter }

func (noConnection) CloseNotify() <-chan bool { return nil }
func (noConnection) Pusher() http.Pusher      { return nil }
