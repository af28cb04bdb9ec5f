package core

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/problem"
)

type onceFlag struct{ atomic.Bool }

// first reports true once.
func (f *onceFlag) first() bool { return !f.Load() && f.CompareAndSwap(false, true) }

// liveRuns knows the runs of this process: those whose handler runs, and those
// whose answer the store has not taken yet. A duplicate that meets its twin
// here is decided here, so that a store which forgot the claim (a restart
// without persistence) cannot cause a second run in the same process.
type liveRuns struct {
	mu           sync.Mutex
	byKey        map[string]*Run
	work         int // runs and background jobs that are not finished
	unsettled    int // answers that wait for the store
	maxUnsettled int
	closing      bool
	closed       bool          // idle is
	idle         chan struct{} // closed when closing and work is zero

	// background is the context of the work that goes on after a response;
	// Shutdown ends it when it waits no longer.
	background context.Context
	abortAll   context.CancelFunc
	// serving ends when Shutdown begins.
	serving     context.Context
	stopServing context.CancelFunc
}

func newLiveRuns() *liveRuns {
	l := &liveRuns{byKey: make(map[string]*Run), maxUnsettled: 1024, idle: make(chan struct{})}
	l.background, l.abortAll = context.WithCancel(context.Background())
	l.serving, l.stopServing = context.WithCancel(l.background)
	return l
}

// find returns the run of a key in this process, and whether new keys are
// refused, and why.
func (l *liveRuns) find(key string) (run *Run, refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing:
		refusal = problem.ShuttingDown
	case l.unsettled >= l.maxUnsettled:
		refusal = problem.StoreUnavailable
	}
	return l.byKey[key], refusal
}

// add registers a run; if its key has one already, or the engine shuts down, it
// returns the code of the refusal.
func (l *liveRuns) add(run *Run) (refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing:
		return problem.ShuttingDown
	case l.byKey[run.lease.Key] != nil:
		return problem.InProgress
	}
	l.byKey[run.lease.Key] = run
	l.work++
	return ""
}

// forget leaves the decisions about the run's key to the store from now on.
func (l *liveRuns) forget(run *Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[run.lease.Key] == run {
		delete(l.byKey, run.lease.Key)
	}
}

// begin counts a piece of background work.
func (l *liveRuns) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work++
}

// end takes back one add or begin.
func (l *liveRuns) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work--
	l.closeIfIdle()
}

func (l *liveRuns) addUnsettled(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled += n
}

// close refuses new work and returns what is closed when the last is done.
func (l *liveRuns) close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closing {
		l.closing = true
		l.stopServing()
		l.closeIfIdle()
	}
	return l.idle
}

func (l *liveRuns) closeIfIdle() {
	if l.closing && l.work == 0 && !l.closed {
		l.closed = true
		l.abortAll()
		close(l.idle)
	}
}

// abort ends the background work and returns how much was unfinished.
func (l *liveRuns) abort() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abortAll()
	return l.work
}
