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

// errOtherGoroutine refuses a policy behind middleware that runs the chain on another
// goroutine.
var errOtherGoroutine = errors.New("idemgin: middleware outside this policy runs the handlers on another goroutine, as gin-contrib/timeout does, " +
	"and gin reuses the context of running handlers: limit the handler with policy.MaxRun, or put http.TimeoutHandler around the gin engine; or a test calls HandleContext: call ServeHTTP there")

// ginFunction is a function of gin that isCalling searches in the call stack, by the name that
// this build gives it: garble gives others.
type ginFunction struct {
	name    string
	known   atomic.Uintptr // the place of its call of the handlers, after the first search
	deepest atomic.Int64   // how many callers a search has needed at most
}

var (
	serveHTTP = ginFunction{name: runtime.FuncForPC(reflect.ValueOf((*gin.Engine).ServeHTTP).Pointer()).Name()}
	next      = ginFunction{name: runtime.FuncForPC(reflect.ValueOf((*gin.Context).Next).Pointer()).Name()}
)

// ownsContext reports whether gin cannot reuse c before the guarded handler returns:
// gin's engine waits on the same goroutine, or c has no engine.
func ownsContext(c *gin.Context) bool { return serveHTTP.isCalling() || c.Handler() == nil }

// isCalling reports whether the function runs on this goroutine. It first looks as deep
// as the function has been before: each caller costs up to 100 ns.
func (f *ginFunction) isCalling() bool {
	var callers [64]uintptr
	if slices.Contains(callers[:runtime.Callers(2, callers[:f.deepest.Load()])], f.known.Load()) {
		return true
	}
	for skip := 2; ; skip += len(callers) {
		n := runtime.Callers(skip, callers[:])
		if place := f.placeIn(callers[:n]); place >= 0 {
			f.known.Store(callers[place])
			f.deepest.Store(max(f.deepest.Load(), min(int64(skip+place-1), int64(len(callers)))))
			return true
		}
		if n < len(callers) {
			return false
		}
	}
}

// placeIn returns the function's place among the callers, or -1.
func (f *ginFunction) placeIn(callers []uintptr) int {
	if place := slices.Index(callers, f.known.Load()); place >= 0 {
		return place
	}
	return slices.IndexFunc(callers, func(caller uintptr) bool {
		frame, _ := runtime.CallersFrames([]uintptr{caller}).Next()
		return frame.Function == f.name
	})
}

// serveApart serves a request whose context gin may reuse while the handler runs.
func (h *guarded) serveApart(c, own *gin.Context, route *core.Route) {
	request, inChain := own.Request, next.isCalling()
	h.serveIn(own, route)
	own.Writer.WriteHeaderNow() // gin's engine does this only for c
	if inChain && (c.Request != request || errors.Is(request.Context().Err(), context.Canceled)) {
		runtime.Goexit() // gin's Next would continue the chain of the request that now has c
	}
}

// ginsOwn is the type of the writer that gin reuses with its context.
var ginsOwn = reflect.TypeOf(new(gin.Context).Copy().Writer)

// apart returns a context that only the guard's handler uses, with a writer that does
// not read from c later. It returns nil if the handler needs c itself: the chain of c
// continues, or c has only gin's own writer.
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

// lateWriter writes to the writer of a middleware that may have responded already.
// The middleware reads its own header concurrently, so lateWriter holds a copy until
// the response begins. It cannot flush or hijack.
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

// noConnection takes the place of gin's writer, whose connection may already serve
// another request.
type noConnection struct{ gin.ResponseWriter }

func (noConnection) CloseNotify() <-chan bool { return nil }
func (noConnection) Pusher() http.Pusher      { return nil }
