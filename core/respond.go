package core

import (
	"context"
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
	defer func() { c.mode = done }()
	c.run.routePattern(c.r.Pattern)
	switch {
	case c.settled:
		c.run.close()
	case panicked && c.mode == buffering && !c.held.IsZero():
		c.finishUnreplayable(false) // as without the held flush
		c.settleHeader(nil)
	case c.mode == buffering && c.settledOutside(panicked):
	case c.mode == buffering:
		c.finishBuffered(panicked)
	default:
		c.finishUnreplayable(panicked)
	}
	if c.mode == streaming {
		maps.DeleteFunc(c.header, func(name string, _ []string) bool { return c.run.engine.responder.isMarker(name) })
	}
}

// finishUnreplayable settles a response that cannot be repeated.
func (c *capture) finishUnreplayable(panicked bool) {
	outcome := failure.Outcome{Status: max(c.status, http.StatusOK), Panicked: panicked}
	c.err = c.run.engine.Finish(c.run, outcome, Response{Status: outcome.Status, Unreplayable: true})
}

// finishBuffered stores the response, and then sends the response.
func (c *capture) finishBuffered(panicked bool) {
	outcome := failure.Outcome{Status: c.status, Panicked: panicked || c.recovered}
	cancelled := !panicked && c.isCutOff() // asked before the settlement begins, see loseInTime
	if cancelled {
		outcome.Err, outcome.ContextEnded = context.Cause(&c.run.context), true
	}
	class := c.run.conclude(&outcome)
	switch {
	case panicked:
		c.replaceByProblem(problem.New(problem.HandlerFailed, ""))
	case cancelled:
		c.replaceByProblem(cancelledProblem(outcome, class == failure.ClassCache))
	case c.status == 0:
		c.writeHeader(http.StatusOK)
	}
	response := Response{Status: c.status, Header: c.changes, Body: c.body, Unreplayable: c.isShort()}
	settled := c.headerIsSettled()
	if !settled {
		response.Header = append(response.Header, c.trailers()...)
	}
	err := c.run.engine.finish(c.run, class, outcome, response)
	switch {
	case panicked: // outer middleware recovers and responds
		c.settleHeader(nil)
	case err != nil:
		c.settleHeader(nil)
		c.run.engine.responder.refuse(c.w, c.r, c.run.subject.route.writeProblem, *unstoredProblem(err))
	default:
		if !settled {
			c.settleHeader(response.Header)
		}
		c.run.engine.responder.setExpiry(c.header, c.run.expires())
		wire.WriteResponse(c.w, response.Status, response.Body)
	}
}

// isCutOff reports whether the handler wrote no response and its context has ended.
func (c *capture) isCutOff() bool { return c.status == 0 && c.run.context.Err() != nil }

// isShort reports whether the handler wrote less than the declared Content-Length.
// net/http then cuts the connection, and would do so for each replay.
func (c *capture) isShort() bool {
	return wire.EndsShort(c.r, c.status, c.length, int64(len(c.body)))
}

// replaceByProblem replaces the handler's response by the engine's own.
func (c *capture) replaceByProblem(p *problem.Problem) {
	own := problemRecorder{header: make(http.Header)}
	c.run.engine.responder.refuse(&own, c.r, c.run.subject.route.writeProblem, *p)
	clear(c.header)
	c.trailer, c.length = nil, -1
	c.status, c.body, c.changes = own.status, own.body, wire.HeaderChanges(nil, nil, own.header)
}

// LeaveToRouter tells the guard that the handler wrote no response to w, and that the
// router's outer middleware will respond with this status. Adapters call LeaveToRouter
// inside of Serve's next. The key is released, unless the handler marked the run as
// executed: then the guard responds, and stores that response. For another writer than
// the guard's, LeaveToRouter has no effect.
func LeaveToRouter(w http.ResponseWriter, status int) {
	if c, ok := w.(*capture); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.left = status
	}
}

// WentAround tells the guard that a response with this status was sent past the
// guard's writer w. Adapters call WentAround inside of Serve's next. The response
// cannot be replayed, and the guard writes no more. For another writer than the
// guard's, WentAround has no effect.
func WentAround(w http.ResponseWriter, status int) {
	if c, ok := w.(*capture); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.around = status
	}
}

// settledOutside settles a run with a response that the guard does not write. It
// returns false where the guard must respond.
func (c *capture) settledOutside(panicked bool) bool {
	outcome := failure.Outcome{Status: c.around, Panicked: panicked}
	switch {
	case c.around != 0:
	case panicked, c.left == 0, c.status != 0, c.run.context.Err() != nil:
		return false
	default:
		outcome.Status = c.left
	}
	class := c.run.conclude(&outcome)
	if c.around == 0 && class == failure.ClassCache {
		c.replaceByProblem(problem.New(problem.HandlerFailed, ""))
		return false
	}
	c.err = c.run.engine.finish(c.run, class, outcome, Response{Status: outcome.Status, Unreplayable: true})
	for name := range c.header {
		if c.run.engine.responder.isMarker(name) {
			delete(c.header, name)
		}
	}
	return true
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

// unstoredProblem returns the response for an error of Finish.
func unstoredProblem(err error) *problem.Problem {
	switch {
	case errors.Is(err, ErrNotConfirmed):
		return problem.New(problem.NotConfirmed, "")
	case errors.Is(err, storage.ErrRolledBack):
		return problem.New(problem.RolledBack, "")
	default:
		return problem.New(problem.InProgress, "")
	}
}
