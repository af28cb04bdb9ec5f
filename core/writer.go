package core

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/internal/callers"
)

var (
	// errHandlerDone is returned by writes after the handler has returned.
	errHandlerDone = errors.New("oncekey: write after the handler has returned")
	// errHeldBack says that a flush waits for more of the response.
	errHeldBack = errors.New("oncekey: the flush is held back")
)

// Header returns outer middleware's header. The handler's changes are removed again
// if its response is not sent. After the handler has returned, Header returns an
// empty header that is never sent.
//
// Middleware outside may wait for the response, and then set a header by the context of
// its framework, where it finds c (echo's Response.Before). It may do so while c sends.
func (c *capture) Header() http.Header {
	if !c.mu.TryLock() {
		if isSending(c) {
			return c.header
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.custody == done {
		return make(http.Header)
	}
	return c.header
}

// isSending reports whether c sends on this goroutine, and so holds c.mu.
func isSending(c *capture) bool {
	return callers.Within(c.run.outermost(), callers.Entry(wire.WriteResponse), callers.Entry((*capture).WriteHeader),
		callers.Entry((*capture).Write), callers.Entry((*capture).WriteString), callers.Entry((*capture).FlushError), callers.Entry((*capture).Hijack))
}

// Unwrap lets http.ResponseController reach the deadlines of the connection.
func (c *capture) Unwrap() http.ResponseWriter { return c.w }

// WriteHeader freezes the header. Informational statuses are sent at once and not
// stored. A second final status is ignored, as in net/http.
func (c *capture) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeHeader(status)
}

func (c *capture) writeHeader(status int) {
	switch {
	case c.custody == done:
	case c.status != 0:
		c.writeHeaderAgain(status)
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // the text of net/http
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		c.w.WriteHeader(status) // sends the current header
	default:
		c.status = status
		c.freeze(c.own)
	}
}

// writeHeaderAgain ignores a second status, as net/http does, with one exception.
// Recovering middleware inside the guard reports a panic by a 500, and the half
// response before the panic must not be stored as a whole one. The first 500 counts.
func (c *capture) writeHeaderAgain(status int) {
	switch {
	case c.recovered || !c.custody.waits() || status < http.StatusInternalServerError || !callers.Panic(c.run.outermost()):
	case c.custody == held: // a flushed response has begun, and is sent as without a guard
		_ = c.stream()
	default:
		c.recovered = true
		c.restart(status, c.own)
	}
}

// Write buffers p, or sends p when the response streams.
func (c *capture) Write(p []byte) (int, error) { return write(c, p) }

// WriteString is Write without a copy of s.
func (c *capture) WriteString(s string) (int, error) { return write(c, s) }

func write[Text []byte | string](c *capture, p Text) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.prepare(len(p)); err != nil {
		return 0, err
	}
	if c.custody == streaming {
		return c.w.Write([]byte(p))
	}
	c.body = append(c.body, p...)
	return len(p), nil
}

// ended returns the error for writes that come too late, or nil.
func (c *capture) ended() error {
	switch {
	case c.err != nil:
		return c.err
	case c.custody == hijacked:
		return http.ErrHijacked
	case c.custody == done:
		return errHandlerDone
	default:
		return nil
	}
}

// prepare must be called before n bytes of body are written.
func (c *capture) prepare(n int) error {
	if err := c.ended(); err != nil {
		return err
	}
	if c.status == 0 {
		c.writeHeader(http.StatusOK)
	}
	if n == 0 { // allowed with any status, as in net/http
		return nil
	}
	if !wire.BodyAllowed(c.status) {
		return http.ErrBodyNotAllowed
	}
	if c.written += int64(n); c.length >= 0 && c.written > c.length {
		return http.ErrContentLength
	}
	if c.custody.waits() && (int64(len(c.body)+n) > c.maxBytes || c.custody == held && c.heldTooLong()) {
		return c.stream()
	}
	return nil
}

// Flush implements http.Flusher.
func (c *capture) Flush() { _ = c.FlushError() }

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
	case c.custody == streaming:
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

// Hijack passes the connection to the handler. The response cannot be replayed.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, nil, c.err
	case c.custody == done:
		return nil, nil, errHandlerDone
	case c.r.ProtoMajor > 1 || !wire.Supports[http.Hijacker](c.w): // a writer of middleware may only seem to have it
		return nil, nil, http.ErrNotSupported
	}
	if err := c.beforeHijack(); err != nil {
		return nil, nil, err
	}
	connection, buffered, err := http.NewResponseController(c.w).Hijack()
	if err == nil {
		c.custody = hijacked
	}
	return connection, buffered, err
}

// beforeHijack records that the response cannot be replayed. A status that the handler
// has written is sent first, as in net/http.
func (c *capture) beforeHijack() error {
	switch {
	case !c.custody.waits():
		return nil
	case c.status != 0:
		return c.stream()
	default:
		return c.recordUnreplayable(http.StatusSwitchingProtocols)
	}
}

// CloseNotify implements http.CloseNotifier, without which gin's Stream panics in a gin.Engine
// inside of the guard. The channel of a writer that cannot tell never receives.
func (c *capture) CloseNotify() <-chan bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.custody == done {
		return nil
	}
	return wire.CloseNotify(c.w)
}
