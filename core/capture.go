package core

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
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
	header  http.Header    // what outer middleware has set, and the handler's changes
	outer   storage.Header // what outer middleware had set when the handler began
	changes storage.Header // what the handler changed, frozen when the header was written
	trailer []string       // names that the handler announced as trailers
	status  int            // zero until the header was written
	length  int64          // the declared Content-Length; negative when none was
	written int64          // what the handler wrote, or tried to write, of the body
	body    []byte         // what waits for the store
	held    time.Time      // when a proxy's flush was first held back; zero when none was
	mode    captureMode
	settled bool
	// recovered says that the handler panicked and somebody inside recovered it.
	recovered bool
	left      int   // status that is left to middleware outside; see LeaveToRouter
	around    int   // status of a response that was sent past this writer; see WentAround
	err       error // why the answer must not go out

	// Where small answers go.
	smallBody    [512]byte
	smallOuter   [2]storage.Field
	smallChanges [4]storage.Field
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
// its 500, and half a response must not be stored as a whole one.
func (c *capture) writeHeaderAgain(status int) {
	switch {
	case c.mode != buffering || status < http.StatusInternalServerError || !calledBy("runtime.gopanic"):
	case !c.held.IsZero(): // a response that was flushed has begun: it goes out as it would bare
		_ = c.stream()
	default:
		c.recovered, c.status, c.body, c.written = true, status, nil, 0
		c.freezeAgain()
	}
}

// calledBy reports whether a function is among the callers within the guard. The
// prefix is that of its full name.
func calledBy(prefix string) bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, prefix) {
			return true
		}
		if !more || strings.HasSuffix(frame.Function, "/core.(*Engine).execute") {
			return false
		}
	}
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
	if n == 0 { // allowed with any status, as in net/http
		return nil
	}
	if !bodyAllowed(c.status) {
		return http.ErrBodyNotAllowed
	}
	if c.written += int64(n); c.length >= 0 && c.written > c.length {
		return http.ErrContentLength
	}
	limit := c.run.subject.route.policy.MaxResponseBytes
	if c.mode == buffering && (int64(len(c.body)+n) > limit || c.heldTooLong()) {
		return c.stream()
	}
	return nil
}

// bodyAllowed follows RFC 9110, section 6.4.1.
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
