package core

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/callers"
)

// capture is the response writer of a guarded handler. It buffers the response until
// the store has confirmed the record, so that a client never holds a response that
// the store lacks. A response that cannot wait (flushed, hijacked, too large) is
// first recorded as unreplayable, and then streams.
//
// A capture is safe for concurrent use. Writes after the handler has returned fail.
type capture struct {
	w        http.ResponseWriter
	r        *http.Request
	run      settlement
	own      *responder // writes the engine's own header fields
	maxBytes int64      // the policy's MaxResponseBytes

	mu sync.Mutex
	draft
	custody   custody
	recovered bool       // the handler panicked, and middleware inside recovered
	settled   bool       // the run is settled, because the response was sent or refused
	outside   int32      // status of a response that is left to the router, or sent around
	heldSince *time.Time // of the first flush that is held
	err       error      // reason for which the response must not be sent
}

// custody says where a handler's response is.
type custody uint8

const (
	buffered     custody = iota // it waits for the store
	leftToRouter                // middleware outside sends it, unless the handler still writes one; see LeaveToRouter
	held                        // it waits, although a proxy has flushed it; see holdsBack
	wentAround                  // it was sent past this writer; see WentAround
	streaming                   // it is sent as the handler writes it
	hijacked                    // the handler has the connection
	refused                     // a problem was sent in its place
	done                        // the handler has returned
)

// waits reports whether this writer has sent nothing of the response.
func (c custody) waits() bool { return c <= wentAround }

// settlement is the run behind a captured response: all that the writer needs of it.
type settlement interface {
	// outermost returns the entry of the function that calls the handler. Callers outside
	// of it are not the handler's.
	outermost() uintptr
	// refuse writes a problem in the form of the run's route.
	refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem)
	// cause returns the reason for which the handler's context has ended, or nil.
	cause() error
	// classify returns the class of an outcome while the handler runs.
	classify(outcome failure.Outcome) failure.Class
	// conclude ends the renewals and the marks. It returns the class, and the outcome with
	// the reason that it has added.
	conclude(outcome failure.Outcome) (failure.Class, failure.Outcome)
	// finish settles and ends a concluded run. It returns the end of the response's
	// retention, if that is known, or the error for which the response must not be shown.
	finish(class failure.Class, outcome failure.Outcome, response Response) (time.Time, error)
	// stream settles a run whose response is kept, and is sent while the handler runs.
	stream(outcome failure.Outcome, response Response) error
	// close ends a run that is settled.
	close()
}

// begin makes c the writer of a run. buffer is for the body of a small response.
func (c *capture) begin(w http.ResponseWriter, r *http.Request, run settlement, own *responder, maxBytes int64, buffer []byte) {
	c.w, c.r, c.run, c.own, c.maxBytes = w, r, run, own, maxBytes
	c.draft.begin(w.Header(), buffer)
}

// stream records that the response cannot be replayed, and then sends the buffered
// part. Later writes are sent directly.
func (c *capture) stream() error {
	if err := c.recordUnreplayable(c.status); err != nil {
		return err
	}
	early := maps.Clone(c.header)
	maps.DeleteFunc(early, func(name string, _ []string) bool { return !c.isTrailer(name) || c.own.isOwn(name) })
	c.settleHeader(c.changes)
	wire.WriteResponse(c.w, c.status, c.body)
	maps.Copy(c.header, early)
	c.custody, c.body = streaming, nil
	return nil
}

// recordUnreplayable settles a response before it is sent, unless the response will
// release the key. A release waits for the end of the handler. After a Hijack that has
// failed the run is settled already.
func (c *capture) recordUnreplayable(status int) error {
	if c.settled {
		return nil
	}
	outcome := failure.Outcome{Status: status}
	class := c.run.classify(outcome)
	if class != failure.ClassCache {
		return nil
	}
	c.settled = true
	c.err = c.run.stream(outcome, Response{Status: status, Unreplayable: true})
	if c.err != nil {
		c.custody = refused
		c.settleHeader(nil)
		c.run.refuse(c.w, c.r, unstoredProblem(c.err))
	}
	return c.err
}

// maxHold bounds the time for which the flushes of a proxy are held. If the upstream
// sends more after that time, the response streams.
const maxHold = time.Second

// holdsBack reports whether a flush must wait for the end of the response, so that the
// response can be replayed. An httputil.ReverseProxy flushes each piece of a response
// of unknown length, also if the upstream does not stream. A flush by any other handler
// means that the handler streams.
func (c *capture) holdsBack() bool {
	if c.custody == held && c.heldTooLong() || wire.StreamsByType(c.header.Get("Content-Type")) || !callers.ReverseProxy(c.run.outermost()) {
		return false
	}
	if c.custody < held {
		since := time.Now()
		c.custody, c.heldSince = held, &since
	}
	return true
}

// heldTooLong is asked only about a held response.
func (c *capture) heldTooLong() bool { return time.Since(*c.heldSince) >= maxHold }
