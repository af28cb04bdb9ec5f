package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/oncekey/oncekey/failure"
)

// errHandlerDone is what a writer returns after its handler has returned.
var errHandlerDone = errors.New("oncekey: write after the handler has returned")

// capture is the writer that a guarded handler writes to. It keeps the answer
// until the store has it: record first, respond after, so that a client never
// holds an answer that the store does not. An answer that cannot wait (flushed,
// hijacked, too large) is recorded as unreplayable first, and then streams.
//
// It is safe for handlers that write from several goroutines, or keep the
// writer after they have returned: later writes fail.
type capture struct {
	w   http.ResponseWriter
	r   *http.Request
	run *Run

	mu      sync.Mutex
	header  http.Header // the handler's view: outer middleware's, and its own changes
	changes Header      // what the handler changed, frozen when the header was written
	trailer []string    // names that the handler announced as trailers
	status  int         // zero until the header was written
	length  int64       // what is left of a declared Content-Length; negative when none was
	body    []byte      // what waits for the store
	mode    captureMode
	settled bool
	// recovered says that the handler panicked and somebody inside recovered it.
	recovered bool
	err       error // why the answer must not go out

	// Where small answers go.
	smallBody    [512]byte
	smallChanges [8]Field
	smallValues  [8]string
}

type captureMode uint8

const (
	buffering captureMode = iota
	streaming
	hijacked
	done
)

func (c *capture) begin(w http.ResponseWriter, r *http.Request, run *Run) {
	c.w, c.r, c.run = w, r, run
	if c.header = w.Header().Clone(); c.header == nil {
		c.header = make(http.Header)
	}
	c.body = c.smallBody[:0]
}

// Header returns the handler's own copy of the header: what it changes is
// known, and reaches the client with the answer.
func (c *capture) Header() http.Header { return c.header }

// Unwrap lets http.ResponseController reach the deadlines of the connection.
func (c *capture) Unwrap() http.ResponseWriter { return c.w }

// WriteHeader freezes the header. Informational statuses go out at once and are
// not stored; a second final one does nothing, as with net/http.
func (c *capture) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeHeader(status)
}

func (c *capture) writeHeader(status int) {
	switch {
	case c.mode == done:
	case c.status != 0:
		c.writeHeaderAgain(status)
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // net/http's own words
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		c.informational(status)
	default:
		c.status = status
		c.freeze()
	}
}

// writeHeaderAgain ignores a second status, as net/http does, but for one case:
// a recovering middleware that is mounted inside the guard reports a panic by
// its 500, and half an answer must not be stored as a whole one.
func (c *capture) writeHeaderAgain(status int) {
	if c.mode == buffering && status >= http.StatusInternalServerError && calledByPanic() {
		c.recovered, c.status, c.body, c.changes = true, status, nil, nil
	}
}

// calledByPanic reports whether a deferred function that a panic runs is among
// the callers.
func calledByPanic() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}

// informational sends a 1xx with the handler's header as it is now.
func (c *capture) informational(status int) {
	header := c.w.Header()
	outer := maps.Clone(header)
	headerChanges(nil, header, c.header).apply(header, nil)
	c.w.WriteHeader(status)
	clear(header)
	maps.Copy(header, outer)
}

// freeze takes down what the handler has changed: changes that come later are
// not sent, but for trailers.
func (c *capture) freeze() {
	for _, list := range c.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			c.trailer = append(c.trailer, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	c.length = -1
	if declared := c.header.Get("Content-Length"); declared != "" {
		if length, err := strconv.ParseInt(declared, 10, 64); err == nil {
			c.length = length
		}
	}
	c.changes = headerChanges(c.smallChanges[:0], c.w.Header(), c.header)
	c.changes = slices.DeleteFunc(c.changes, func(f Field) bool {
		return c.isMarker(f.Name) || c.isTrailer(f.Name) // trailers come at the end
	})
}

// isMarker reports whether the name is the replay marker's, however it is
// spelled: a handler cannot forge it.
func (c *capture) isMarker(name string) bool {
	return http.CanonicalHeaderKey(strings.TrimPrefix(name, http.TrailerPrefix)) == c.run.engine.replayHeader
}

func (c *capture) isTrailer(name string) bool {
	return slices.Contains(c.trailer, name) || strings.HasPrefix(name, http.TrailerPrefix)
}

// trailers returns the trailers as net/http spells those that were not announced.
func (c *capture) trailers() Header {
	var trailers Header
	for name, values := range c.header {
		if !c.isTrailer(name) || c.isMarker(name) {
			continue
		}
		for _, value := range values {
			name := http.TrailerPrefix + strings.TrimPrefix(name, http.TrailerPrefix)
			trailers = append(trailers, Field{Name: name, Value: value})
		}
	}
	slices.SortStableFunc(trailers, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return trailers
}

// Write keeps the body, or sends it when the answer streams.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.prepare(len(p)); err != nil {
		return 0, err
	}
	if c.mode == streaming {
		return c.w.Write(p)
	}
	c.body = append(c.body, p...)
	return len(p), nil
}

// WriteString is Write without a copy of s.
func (c *capture) WriteString(s string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.prepare(len(s)); err != nil {
		return 0, err
	}
	if c.mode == streaming {
		return c.w.Write([]byte(s))
	}
	c.body = append(c.body, s...)
	return len(s), nil
}

// prepare gets ready for n more bytes of body.
func (c *capture) prepare(n int) error {
	switch {
	case c.err != nil:
		return c.err
	case c.mode == hijacked:
		return http.ErrHijacked
	case c.mode == done:
		return errHandlerDone
	}
	if c.status == 0 {
		c.writeHeader(http.StatusOK)
	}
	if !bodyAllowed(c.status) {
		return http.ErrBodyNotAllowed
	}
	if c.length >= 0 && int64(n) > c.length {
		return http.ErrContentLength
	}
	c.length -= int64(n) // it stays below zero when none was declared
	limit := c.run.subject.route.policy.MaxResponseBytes
	if c.mode == buffering && int64(len(c.body)+n) > limit {
		return c.stream()
	}
	return nil
}

// bodyAllowed follows RFC 9110, section 6.4.1.
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// stream records that the answer cannot be replayed, and then sends what there
// is of it. The rest goes straight through.
func (c *capture) stream() error {
	if err := c.recordUnreplayable(c.status); err != nil {
		return err
	}
	c.changes.apply(c.w.Header(), c.smallValues[:])
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
	switch {
	case c.err != nil:
		return c.err
	case c.mode == hijacked:
		return http.ErrHijacked
	case c.mode == done:
		return errHandlerDone
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

// finish settles what the handler has left, and answers. It is called in a
// defer, so it also sees the end of a handler that panicked.
func (c *capture) finish(panicked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.mode = done }()
	c.run.routePattern(c.r.Pattern)
	switch {
	case c.settled:
		c.run.close()
	case c.mode == buffering:
		c.finishBuffered(panicked)
	default:
		outcome := failure.Outcome{Status: max(c.status, http.StatusOK), Panicked: panicked}
		c.err = c.run.engine.Finish(c.run, outcome, Answer{Status: outcome.Status, Unreplayable: true})
	}
	if c.mode == streaming && c.err == nil && !panicked {
		c.trailers().apply(c.w.Header(), nil)
	}
}

// finishBuffered stores the answer, and then sends it.
func (c *capture) finishBuffered(panicked bool) {
	outcome := c.run.marked(failure.Outcome{Status: c.status, Panicked: panicked || c.recovered})
	switch {
	case panicked:
		c.replaceByProblem(problem(CodeHandlerFailed, ""))
	case c.status == 0 && c.run.context.Err() != nil:
		outcome.Err = context.Cause(&c.run.context)
		c.replaceByProblem(cancelledProblem(outcome))
	case c.status == 0:
		c.writeHeader(http.StatusOK)
	}
	answer := Answer{Status: c.status, Header: append(c.changes, c.trailers()...), Body: c.body}
	err := c.run.engine.Finish(c.run, outcome, answer)
	switch {
	case panicked: // whoever recovers it answers
	case err != nil:
		c.run.engine.writeProblem(c.w, c.r, *unstoredProblem(err))
	default:
		answer.Header.apply(c.w.Header(), c.smallValues[:])
		writeAnswer(c.w, answer.Status, answer.Body)
	}
}

// replaceByProblem makes the engine's own answer the one to store and to send.
func (c *capture) replaceByProblem(p *Problem) {
	own := problemRecorder{header: make(http.Header)}
	c.run.engine.writeProblem(&own, c.r, *p)
	clear(c.header)
	c.trailer = nil
	c.status, c.body, c.changes = own.status, own.body, headerChanges(nil, nil, own.header)
}

// problemRecorder takes what a ProblemWriter writes.
type problemRecorder struct {
	header http.Header
	status int
	body   []byte
}

func (p *problemRecorder) Header() http.Header { return p.header }

func (p *problemRecorder) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

func (p *problemRecorder) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	p.body = append(p.body, b...)
	return len(b), nil
}
