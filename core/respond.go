package core

import (
	"errors"
	"maps"
	"net/http"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// finish settles the run and sends the response. The engine calls finish in a defer,
// so that a handler's panic is settled too.
func (c *capture) finish(panicked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		c.custody = done
		c.outer.Free()
	}()
	switch waits := c.custody.waits(); {
	case c.settled:
		if waits && c.status != 0 && !panicked { // the handler's response to a Hijack that has failed
			_ = c.stream() // nothing is left to store
		}
		c.run.close()
	case c.custody == held && panicked:
		c.finishUnreplayable(false) // as without the held flush
		c.settleHeader(nil)
	case waits && c.settledOutside(panicked):
	case waits:
		c.finishBuffered(panicked)
	default:
		c.finishUnreplayable(panicked)
	}
	if c.custody == streaming {
		c.deleteMarkers()
	}
}

// finishUnreplayable settles a response that cannot be repeated.
func (c *capture) finishUnreplayable(panicked bool) {
	class, outcome := c.run.conclude(failure.Outcome{Status: max(c.status, http.StatusOK), Panicked: panicked})
	_, c.err = c.run.finish(class, outcome, Response{Status: outcome.Status, Unreplayable: true})
}

// finishBuffered stores the response, and then sends the response.
func (c *capture) finishBuffered(panicked bool) {
	outcome := failure.Outcome{Status: c.status, Panicked: panicked || c.recovered}
	cancelled := !panicked && c.isCutOff() // asked before the settlement begins, see Hold.LoseInTime
	if cancelled {
		outcome.Err, outcome.ContextEnded = c.run.cause(), true
	}
	class, outcome := c.run.conclude(outcome)
	switch {
	case panicked:
		c.replaceByProblem(problem.New(problem.HandlerFailed, ""))
	case cancelled:
		c.replaceByProblem(cancelledProblem(outcome, class == failure.ClassCache))
	case c.status == 0:
		c.writeHeader(http.StatusOK)
	}
	settleBuffered(c, class, outcome, panicked)
}

// settleBuffered is the end of finishBuffered, for a run that is concluded.
func settleBuffered(c *capture, class failure.Class, outcome failure.Outcome, panicked bool) {
	response := Response{Status: c.status, Header: c.changes, Body: c.body, Unreplayable: c.isShort(c.r)}
	settled := c.headerIsSettled()
	if !settled {
		response.Header = append(response.Header, c.trailers(c.own)...)
	}
	end, err := c.run.finish(class, outcome, response)
	switch {
	case panicked: // outer middleware recovers and responds
		c.settleHeader(nil)
	case err != nil:
		c.settleHeader(nil)
		c.run.refuse(c.w, c.r, unstoredProblem(err))
	default:
		if !settled {
			c.settleHeader(response.Header)
		}
		c.own.setExpiry(c.header, end)
		wire.WriteResponse(c.w, response.Status, response.Body)
	}
}

// isCutOff reports whether the handler wrote no response and its context has ended.
func (c *capture) isCutOff() bool { return c.status == 0 && c.run.cause() != nil }

// replaceByProblem replaces the handler's response by the engine's own.
func (c *capture) replaceByProblem(p *problem.Problem) {
	own := problemRecorder{header: make(http.Header)}
	c.run.refuse(&own, c.r, p)
	c.replace(own.status, own.header, own.body)
}

// settledOutside settles a run with a response that middleware outside writes or has
// written. Where that response would have to be kept, the guard responds in its place. It
// returns false where the response is the handler's after all.
func (c *capture) settledOutside(panicked bool) bool {
	sent := c.custody == wentAround
	if !sent && (panicked || c.custody != leftToRouter || c.status != 0 || c.run.cause() != nil) {
		return false
	}
	class, outcome := c.run.conclude(failure.Outcome{Status: int(c.outside), Panicked: panicked})
	if !sent && class == failure.ClassCache {
		c.replaceByProblem(problem.New(problem.HandlerFailed, ""))
		outcome.Status = c.status
		settleBuffered(c, c.run.classify(outcome), outcome, false)
		return true
	}
	_, c.err = c.run.finish(class, outcome, Response{Status: outcome.Status, Unreplayable: true})
	c.deleteMarkers()
	return true
}

// deleteMarkers deletes the markers that the handler has forged.
func (c *capture) deleteMarkers() {
	maps.DeleteFunc(c.header, func(name string, _ []string) bool { return c.own.isMarker(name) })
}

// LeaveToRouter tells the guard that the handler wrote no response to w, and that the
// router's outer middleware will respond with this status. Adapters call LeaveToRouter
// inside of Serve's next. The key is released, unless the handler marked the run as
// executed: then the guard responds, and stores that response. For another writer than
// the guard's, LeaveToRouter has no effect.
func LeaveToRouter(w http.ResponseWriter, status int) {
	if c, ok := w.(*capture); ok {
		c.leave(leftToRouter, status)
	}
}

// WentAround tells the guard that a response with this status was sent past the
// guard's writer w. Adapters call WentAround inside of Serve's next. The response
// cannot be replayed, and the guard writes no more. For another writer than the
// guard's, WentAround has no effect.
func WentAround(w http.ResponseWriter, status int) {
	if c, ok := w.(*capture); ok {
		c.leave(wentAround, status)
	}
}

// leave notes that a response with this status is not written here. That has no effect on a
// response that is on its way already.
func (c *capture) leave(to custody, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status != 0 && c.custody.waits() && c.custody < to {
		c.custody, c.outside = to, int32(status)
	}
}

// cancelledProblem returns the response for a handler that wrote none because its
// context ended. A response that is kept must not tell the client to try again.
func cancelledProblem(outcome failure.Outcome, kept bool) *problem.Problem {
	switch {
	case kept:
		return problem.New(problem.HandlerFailed, "")
	case errors.Is(outcome.Err, storage.ErrLeaseLost):
		return problem.New(problem.InProgress, "")
	default:
		return problem.New(problem.HandlerCancelled, "")
	}
}
