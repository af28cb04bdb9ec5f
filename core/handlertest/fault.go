package handlertest

import (
	"errors"
	"fmt"
	"slices"
)

// kind is the kind of a point, which decides about its faults.
type kind int

const (
	acquire kind = iota
	settle       // Complete, Release and Extend
	call
	roundTrip
	begin
	query
	exec
	commit
	response
)

// isOutgoing reports whether the point is a call of the handler.
func (k kind) isOutgoing() bool { return k >= call && k <= commit }

// isSQL reports whether the point is a call to a database.
func (k kind) isSQL() bool { return k >= begin && k <= commit }

// unwinds reports whether a call can end with its goroutine. In other calls database/sql
// holds a lock, or the engine waits for the end of its call.
func (k kind) unwinds() bool { return k == acquire || k == call || k == roundTrip }

// point is a place where a run can fail.
type point struct {
	kind  kind
	name  string
	n     int    // counts the points of the same kind and name, from 1
	place string // file and line of an outgoing call, or ""
}

func (p point) String() string {
	text := p.name
	if p.n > 1 {
		text += fmt.Sprintf(" #%d", p.n)
	}
	if p.place != "" {
		text += " (" + p.place + ")"
	}
	return text
}

// at is the place of the point, if it is known.
func (p point) at() string {
	if p.place == "" {
		return p.name
	}
	return p.place + " (" + p.name + ")"
}

// is reports whether both are the same point. The place may be unknown.
func (p point) is(other point) bool {
	return p.kind == other.kind && p.name == other.name && p.n == other.n
}

// The phases of a fault.
const (
	before = "before"
	during = "during"
	after  = "after"
)

// The faults.
const (
	unreachable = "unreachable"
	refused     = "refused"
	panics      = "panic"
	timeOut     = "time-out"
	killed      = "killed"
	leaseLost   = "lease lost"
	replyLost   = "reply lost"
	replyCut    = "reply cut"
	replyLate   = "reply late"
	clientGone  = "client gone"
)

type fault struct{ when, what string }

// endsContext reports whether the fault lasts until the request's context ends.
func (f fault) endsContext() bool { return f.what == timeOut || f.what == replyLate }

// faults lists the faults of each kind of point. A panic in database/sql outside of an
// Exec would leak the pool's connection, so the other calls to a database do not panic.
var faults = [...][]fault{
	acquire:   {{before, unreachable}, {before, killed}, {after, replyLost}, {after, killed}},
	settle:    {{before, unreachable}, {before, killed}, {before, leaseLost}, {after, replyLost}, {after, killed}},
	call:      anyCall,
	roundTrip: append(slices.Clip(anyCall), fault{after, replyCut}, fault{after, panics}),
	begin:     {{before, refused}, {before, timeOut}, {before, killed}, {before, leaseLost}},
	query:     {{before, refused}, {before, timeOut}, {before, killed}, {before, leaseLost}, {during, replyLost}},
	exec:      anyCall,
	commit: {
		{before, refused},
		{before, timeOut},
		{before, killed},
		{before, leaseLost},
		{during, replyLost},
		{during, killed},
		{during, leaseLost},
		{during, clientGone},
	},
	response: {{after, replyLost}},
}

var anyCall = []fault{
	{before, refused},
	{before, panics},
	{before, timeOut},
	{before, killed},
	{before, leaseLost},
	{during, replyLost},
	{during, panics},
	{during, timeOut},
	{during, killed},
	{during, leaseLost},
	{during, clientGone},
	{after, replyLate},
}

// errFault is wrapped by the errors of all faults.
var errFault = errors.New("handlertest")

var (
	errUnreachable = fmt.Errorf("%w: the store is unreachable", errFault)
	errRefused     = fmt.Errorf("%w: connection refused", errFault)
	errReplyLost   = fmt.Errorf("%w: connection reset before the reply", errFault)
	errKilled      = fmt.Errorf("%w: the process was killed", errFault)
	errPanic       = fmt.Errorf("%w: panic in the call", errFault)
)
