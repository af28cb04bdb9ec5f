package core

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/oncekey/oncekey/failure"
)

// stream records that the answer cannot be replayed, and then sends what there
// is of it. The rest goes straight through.
func (c *capture) stream() error {
	if err := c.recordUnreplayable(c.status); err != nil {
		return err
	}
	c.settleHeader(c.changes)
	writeResponse(c.w, c.status, c.body)
	c.mode, c.body = streaming, nil
	return nil
}

// recordUnreplayable settles an answer that is about to go out, if it is one to
// keep. If it frees the key, it does so at the end: the handler still runs.
func (c *capture) recordUnreplayable(status int) error {
	outcome := c.run.marked(failure.Outcome{Status: status})
	if c.run.classify(outcome) != failure.ClassCache {
		return nil
	}
	c.settled = true
	c.err = c.run.engine.settle(c.run, outcome, Answer{Status: status, Unreplayable: true})
	if c.err != nil {
		c.settleHeader(nil)
		c.run.engine.refuseWith(c.w, c.r, *unstoredProblem(c.err))
	}
	return c.err
}

// FlushError sends what there is; the response streams from here on. See
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

// prepareFlush records what is about to be flushed. It returns errHeldBack where
// nothing is to be flushed yet.
func (c *capture) prepareFlush() error {
	if err := c.ended(); err != nil {
		return err
	}
	switch {
	case c.mode == streaming:
		return nil
	case !supports[http.Flusher](c.w):
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

// maxHold is how long the flushes of a proxy are held back. If its upstream goes
// on after that, the response streams.
const maxHold = time.Second

// holdsBack reports whether a flush is to wait for the end of the response, so
// that the response can be replayed. An httputil.ReverseProxy flushes each piece
// of a response of unknown length, which says nothing about its upstream's wish to
// stream. Any other handler that flushes wants to stream.
func (c *capture) holdsBack() bool {
	if c.heldTooLong() || streamsByType(c.header.Get("Content-Type")) || !calledBy("net/http/httputil.(*") {
		return false
	}
	if c.held.IsZero() {
		c.held = time.Now()
	}
	return true
}

func (c *capture) heldTooLong() bool { return !c.held.IsZero() && time.Since(c.held) >= maxHold }

// streamsByType reports whether a response of this media type is read while it
// comes in.
func streamsByType(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl",
		"application/json-seq", "multipart/x-mixed-replace":
		return true
	default:
		return false
	}
}

// Flush is FlushError for those who use http.Flusher.
func (c *capture) Flush() { _ = c.FlushError() }

// Hijack hands the connection over; nothing can be replayed.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, nil, c.err
	case c.mode == done:
		return nil, nil, errHandlerDone
	case !supports[http.Hijacker](c.w):
		return nil, nil, http.ErrNotSupported
	}
	if err := c.beforeHijack(); err != nil {
		return nil, nil, err
	}
	c.mode = hijacked
	return http.NewResponseController(c.w).Hijack()
}

// beforeHijack records that nothing can be replayed. A status that was written
// goes out first, as with net/http.
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

// supports reports whether the connection itself does what T does: a wrapper
// that has T's methods may have nobody to pass them on to. It is asked before
// the key is spent on it.
func supports[T any](w http.ResponseWriter) bool {
	_, ok := connectionOf(w).(T)
	return ok
}
