package core

import (
	"bufio"
	"net"
	"net/http"

	"github.com/oncekey/oncekey/failure"
)

// stream records that the answer cannot be replayed, and then sends what there
// is of it. The rest goes straight through.
func (c *capture) stream() error {
	if err := c.recordUnreplayable(c.status); err != nil {
		return err
	}
	c.settleHeader(c.changes)
	writeAnswer(c.w, c.status, c.body)
	c.mode, c.body = streaming, nil
	return nil
}

// recordUnreplayable settles an answer that is about to go out, if it is one to
// keep. If it frees the key, it does so at the end: the handler still runs.
func (c *capture) recordUnreplayable(status int) error {
	outcome := c.run.marked(failure.Outcome{Status: status})
	if c.run.subject.route.policy.Classify(outcome) != failure.ClassCache {
		return nil
	}
	c.settled = true
	c.err = c.run.engine.settle(c.run, outcome, Answer{Status: status, Unreplayable: true})
	if c.err != nil {
		c.settleHeader(nil)
		c.run.engine.writeProblem(c.w, c.r, *unstoredProblem(c.err))
	}
	return c.err
}

// FlushError sends what there is; the answer streams from here on.
func (c *capture) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.prepareFlush(); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

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
	return c.stream()
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
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			_, ok = w.(T)
			return ok
		}
		w = wrapper.Unwrap()
	}
}
