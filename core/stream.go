package core

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// stream records that the response cannot be replayed, and then sends the buffered
// part. Later writes are sent directly.
func (c *capture) stream() error {
	if err := c.recordUnreplayable(c.status); err != nil {
		return err
	}
	c.settleHeader(c.changes)
	wire.WriteResponse(c.w, c.status, c.body)
	c.mode, c.body = streaming, nil
	return nil
}

// recordUnreplayable settles a response before it is sent, unless the response will
// release the key. A release waits for the end of the handler.
func (c *capture) recordUnreplayable(status int) error {
	outcome := failure.Outcome{Status: status}
	class := c.run.classify(outcome)
	if class != failure.ClassCache {
		return nil
	}
	c.settled, c.run.streams = true, true
	c.run.marks.Seal() // a later mark must not release the key of a response that streams
	c.run.stopRenewing()
	c.err = c.run.engine.settle(c.run, class, outcome, Response{Status: status, Unreplayable: true})
	if c.err != nil {
		c.run.context.end(c.err) // nothing that the handler still does can be shown
		c.settleHeader(nil)
		c.run.engine.responder.refuse(c.w, c.r, c.run.subject.route.writeProblem, *unstoredProblem(c.err))
	}
	return c.err
}

// confirm shows a result that the store has confirmed. If the response streams, no retry
// needs the handler any more, and the handler's context follows the client.
func (r *Run) confirm(result *storage.Result) {
	r.show(result, true)
	if r.streams {
		r.context.follow()
	}
}

// follow makes the client's disconnect end the context from now on, with the cause that
// the request's context has. The deadline of that context is this one's already.
func (c *runContext) follow() {
	disconnected := func() {
		if errors.Is(c.parent.Err(), context.Canceled) {
			c.end(context.Cause(c.parent))
		}
	}
	if c.parent.Err() != nil {
		disconnected()
		return
	}
	leave := context.AfterFunc(c.parent, disconnected)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait(); c.ended {
		leave()
		return
	}
	cancel := c.cancel
	c.cancel = func(cause error) {
		leave()
		cancel(cause)
	}
}

// FlushError sends the buffered part of the response, which streams from then on. See
// holdsBack for the exception.
func (c *capture) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.prepareFlush(); {
	case errors.Is(err, errHeldBack):
		return nil
	case err != nil:
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// prepareFlush records the response before a flush. It returns errHeldBack if the flush
// must wait.
func (c *capture) prepareFlush() error {
	if err := c.ended(); err != nil {
		return err
	}
	switch {
	case c.mode == streaming:
		return nil
	case !wire.Supports[http.Flusher](c.w):
		return http.ErrNotSupported
	}
	if c.status == 0 {
		c.writeHeader(http.StatusOK)
	}
	if c.holdsBack() {
		return errHeldBack
	}
	return c.stream()
}

// errHeldBack says that a flush waits for more of the response.
var errHeldBack = errors.New("oncekey: the flush is held back")

// maxHold bounds the time for which the flushes of a proxy are held. If the upstream
// sends more after that time, the response streams.
const maxHold = time.Second

// holdsBack reports whether a flush must wait for the end of the response, so that the
// response can be replayed. An httputil.ReverseProxy flushes each piece of a response
// of unknown length, also if the upstream does not stream. A flush by any other handler
// means that the handler streams.
func (c *capture) holdsBack() bool {
	if c.heldTooLong() || wire.StreamsByType(c.header.Get("Content-Type")) || !calledBy("net/http/httputil.(*") {
		return false
	}
	if c.held.IsZero() {
		c.held = time.Now()
	}
	return true
}

func (c *capture) heldTooLong() bool { return !c.held.IsZero() && time.Since(c.held) >= maxHold }

// Flush implements http.Flusher.
func (c *capture) Flush() { _ = c.FlushError() }

// Hijack passes the connection to the handler. The response cannot be replayed.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, nil, c.err
	case c.mode == done:
		return nil, nil, errHandlerDone
	case !wire.Supports[http.Hijacker](c.w):
		return nil, nil, http.ErrNotSupported
	}
	if err := c.beforeHijack(); err != nil {
		return nil, nil, err
	}
	c.mode = hijacked
	return http.NewResponseController(c.w).Hijack()
}

// beforeHijack records that the response cannot be replayed. A status that the handler
// has written is sent first, as in net/http.
func (c *capture) beforeHijack() error {
	switch {
	case c.mode != buffering:
		return nil
	case c.status != 0:
		return c.stream()
	default:
		return c.recordUnreplayable(http.StatusSwitchingProtocols)
	}
}
