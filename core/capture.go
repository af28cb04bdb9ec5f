package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	header  http.Header // what outer middleware has set, and the handler's changes
	outer   Header      // what outer middleware had set when the handler began
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
	smallOuter   [2]Field
	smallChanges [4]Field
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
	c.header = w.Header()
	c.outer = headerChanges(c.smallOuter[:0], nil, c.header)
	c.body = c.smallBody[:0]
}

// Header returns the header that outer middleware has begun. What the handler
// changes is known, and taken back where its answer is not the one to send. After
// the handler has returned it is another one, which nobody sends.
func (c *capture) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mode == done {
		return make(http.Header)
	}
	return c.header
}

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
		c.w.WriteHeader(status) // at once, with the header as it is now
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

// freeze takes down what the handler has changed: changes that come later are
// not sent, but for trailers.
func (c *capture) freeze() {
	for _, list := range c.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			c.trailer = append(c.trailer, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	c.length = -1
	if declared := c.header["Content-Length"]; len(declared) > 0 {
		if length, err := strconv.ParseInt(declared[0], 10, 64); err == nil {
			c.length = length
		}
	}
	c.changes = headerChanges(c.smallChanges[:0], c.outer, c.header)
	c.changes = slices.DeleteFunc(c.changes, func(f Field) bool {
		return c.isMarker(f.Name) || c.isTrailer(f.Name) || !f.isValid() // trailers come at the end
	})
}

// settleHeader makes the header what outer middleware had set, and these changes of
// it: what the handler changed later, or must not change, is taken back.
func (c *capture) settleHeader(changes Header) {
	var room [4]Field
	if slices.Equal(headerChanges(room[:0], c.outer, c.header), changes) {
		return
	}
	clear(c.header)
	for _, f := range c.outer { // as it was, whatever that is
		if f.Op == Delete {
			c.header[f.Name] = nil
			continue
		}
		c.header[f.Name] = append(c.header[f.Name], f.Value)
	}
	changes.apply(c.header, nil)
}

// isMarker reports whether the name is the replay marker's, however it is
// spelled: a handler cannot forge it.
func (c *capture) isMarker(name string) bool {
	return strings.EqualFold(strings.TrimPrefix(name, http.TrailerPrefix), c.run.engine.replayHeader)
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

// ended returns why nothing can be written any more, or nil.
func (c *capture) ended() error {
	switch {
	case c.err != nil:
		return c.err
	case c.mode == hijacked:
		return http.ErrHijacked
	case c.mode == done:
		return errHandlerDone
	default:
		return nil
	}
}

// prepare gets ready for n more bytes of body.
func (c *capture) prepare(n int) error {
	if err := c.ended(); err != nil {
		return err
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
	if c.mode == streaming {
		maps.DeleteFunc(c.header, func(name string, _ []string) bool { return c.isMarker(name) })
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
		c.settleHeader(nil)
	case err != nil:
		c.settleHeader(nil)
		c.run.engine.writeProblem(c.w, c.r, *unstoredProblem(err))
	default:
		c.settleHeader(answer.Header)
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
