package core

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/storage"
)

// errHandlerDone is returned by writes after the handler has returned.
var errHandlerDone = errors.New("oncekey: write after the handler has returned")

// capture is the response writer of a guarded handler. It buffers the response until
// the store has confirmed the record, so that a client never holds a response that
// the store lacks. A response that cannot wait (flushed, hijacked, too large) is
// first recorded as unreplayable, and then streams.
//
// A capture is safe for concurrent use. Writes after the handler has returned fail.
type capture struct {
	w   http.ResponseWriter
	r   *http.Request
	run *Run

	mu      sync.Mutex
	header  http.Header    // outer middleware's header with the handler's changes
	outer   storage.Header // outer middleware's header when the handler began
	changes storage.Header // the handler's changes, frozen by WriteHeader
	trailer []string       // names that the handler announced as trailers
	status  int            // zero before WriteHeader
	length  int64          // the declared Content-Length; negative: not declared
	written int64          // body bytes that the handler wrote, or tried to write
	body    []byte         // body bytes that wait for the store
	held    time.Time      // time of a proxy's first held flush; zero: no flush is held
	mode    captureMode
	settled bool
	// recovered says that the handler panicked and middleware inside recovered.
	recovered bool
	left      int   // status for middleware outside to send; see LeaveToRouter
	around    int   // status of a response that was sent past this writer; see WentAround
	err       error // reason for which the response must not be sent

	// Buffers for small responses.
	smallBody    [512]byte
	smallOuter   [2]storage.Field
	smallChanges [3]storage.Field
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
	c.outer = wire.HeaderFields(c.smallOuter[:0], c.header)
	c.body = c.smallBody[:0]
}

// Header returns outer middleware's header. The handler's changes are removed again
// if its response is not sent. After the handler has returned, Header returns an
// empty header that is never sent.
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

// WriteHeader freezes the header. Informational statuses are sent at once and not
// stored. A second final status is ignored, as in net/http.
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
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // the text of net/http
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		c.w.WriteHeader(status) // sends the current header
	default:
		c.status = status
		c.freeze()
	}
}

// writeHeaderAgain ignores a second status, as net/http does, with one exception.
// Recovering middleware inside the guard reports a panic by a 500, and the half
// response before the panic must not be stored as a whole response.
func (c *capture) writeHeaderAgain(status int) {
	switch {
	case c.mode != buffering || status < http.StatusInternalServerError || !calledBy("runtime.gopanic"):
	case !c.held.IsZero(): // a flushed response has begun, and is sent as without a guard
		_ = c.stream()
	default:
		c.recovered, c.status, c.body, c.written = true, status, nil, 0
		c.freezeAgain()
	}
}

// calledBy reports whether a caller within the guard has a full function name with
// the prefix.
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

// Write buffers p, or sends p when the response streams.
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

// ended returns the error for writes that come too late, or nil.
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
	limit := c.run.subject.route.policy.MaxResponseBytes
	if c.mode == buffering && (int64(len(c.body)+n) > limit || c.heldTooLong()) {
		return c.stream()
	}
	return nil
}

// freeze records the handler's changes. Of later changes, only trailers are sent.
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
	c.changes = wire.HeaderChanges(c.smallChanges[:0], c.outer, c.header)
	c.changes = slices.DeleteFunc(c.changes, func(f storage.Field) bool {
		return c.run.engine.responder.isMarker(f.Name) || c.isTrailer(f.Name) || !wire.IsValidField(f) // trailers come at the end
	})
}

// freezeAgain records the header of recovering middleware. Unchanged fields that the
// handler had frozen belong to the handler's response, and are dropped. The exception
// is Content-Type, which both may have set to the same value.
func (c *capture) freezeAgain() {
	before := slices.Clone(c.changes)
	c.trailer = nil
	c.freeze()
	c.changes = slices.DeleteFunc(c.changes, func(f storage.Field) bool {
		return f.Name != "Content-Type" && slices.Contains(before, f)
	})
	if !slices.ContainsFunc(c.changes, func(f storage.Field) bool { return f.Name == "Content-Length" }) {
		c.length = -1
	}
}

// headerIsSettled reports whether the response header is outer middleware's plus
// changes, without trailers: nearly always. That saves a further pass for each.
func (c *capture) headerIsSettled() bool {
	isTrailer := func(f storage.Field) bool { return strings.HasPrefix(f.Name, http.TrailerPrefix) }
	return len(c.trailer) == 0 && !slices.ContainsFunc(c.outer, isTrailer) && c.hasChanges(c.changes)
}

// hasChanges reports whether the response header is outer middleware's plus changes.
func (c *capture) hasChanges(changes storage.Header) bool {
	var buffer [4]storage.Field
	return slices.Equal(wire.HeaderChanges(buffer[:0], c.outer, c.header), changes)
}

// settleHeader resets the response header to the outer middleware's values plus
// changes. Edits made after WriteHeader, and edits that the handler may not make, are
// dropped.
func (c *capture) settleHeader(changes storage.Header) {
	if c.hasChanges(changes) {
		return
	}
	clear(c.header)
	for _, f := range c.outer {
		if f.Op == storage.Delete {
			c.header[f.Name] = nil
			continue
		}
		c.header[f.Name] = append(c.header[f.Name], f.Value)
	}
	wire.ApplyHeader(changes, c.header, nil)
}

func (c *capture) isTrailer(name string) bool {
	return slices.Contains(c.trailer, name) || strings.HasPrefix(name, http.TrailerPrefix)
}

// trailers returns the trailers in net/http's spelling for unannounced trailers.
func (c *capture) trailers() storage.Header {
	var trailers storage.Header
	for name, values := range c.header {
		if !c.isTrailer(name) || c.run.engine.responder.isMarker(name) {
			continue
		}
		for _, value := range values {
			name := http.TrailerPrefix + strings.TrimPrefix(name, http.TrailerPrefix)
			trailers = append(trailers, storage.Field{Name: name, Value: value})
		}
	}
	slices.SortStableFunc(trailers, func(a, b storage.Field) int { return strings.Compare(a.Name, b.Name) })
	return trailers
}
