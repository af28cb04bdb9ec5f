package core

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/problem"
)

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

// inBackground runs work that outlives its request. Shutdown waits for it, and
// ends its context when it waits no longer.
func (e *Engine) inBackground(work func(ctx context.Context)) {
	e.live.begin()
	go func() {
		defer e.live.end()
		work(e.live.background)
	}()
}

// callStore gives one call at the store a deadline.
func callStore(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}

// backoff grows from first to at most limit by doubling, with full jitter
// between half of it and all of it. The jitter comes from the clock and not from
// a random source, so that a simulation on a virtual clock repeats exactly.
func backoff(try int, first, limit time.Duration) time.Duration {
	d := limit
	if try < 16 {
		d = min(limit, first<<try)
	}
	return d/2 + time.Duration(mix(uint64(time.Now().UnixNano()))%uint64(d/2+1))
}

// mix is the finalizer of splitmix64: close inputs give outputs far apart.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sleep waits, and reports false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// renewals wakes the runs whose lease is to be renewed or ends, or that reach
// MaxRun. One timer serves them all: most runs end before their time comes, and a
// timer for each would cost more than the rest of the guard's bookkeeping.
//
// The timer is never stopped: if the run that it was set for has ended when it
// fires, there is nothing to do. One that is due earlier gets another timer, and
// the one set before does nothing when it fires.
type renewals struct {
	mu    sync.Mutex
	now   func() moment
	queue wakeQueue
	fires time.Time // when the timer does, at the latest when the first is due; zero: it is not set
	set   moment    // when the timer was set
}

// notQueued is the place of a run that is not in the queue.
const notQueued = -1

// clockInterval bounds how late the engine notices that the machine was suspended,
// while runs are under way: timers follow the monotonic clock, which stood still.
const clockInterval = time.Second

// place has the run watched at that time, on a goroutine of its own, unless the run
// is closed.
func (q *renewals) place(run *Run, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if run.closed {
		return
	}
	run.wake = at
	if run.place == notQueued {
		heap.Push(&q.queue, run)
	} else {
		heap.Fix(&q.queue, run.place)
	}
	q.arm()
}

// remove closes the run: nothing wakes it any more.
func (q *renewals) remove(run *Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	run.closed = true
	if run.place != notQueued {
		heap.Remove(&q.queue, run.place)
	}
}

// arm sets the timer for the first run, unless it fires before.
func (q *renewals) arm() {
	if len(q.queue) == 0 || !q.fires.IsZero() && !q.queue[0].wake.Before(q.fires) {
		return
	}
	q.set = q.now()
	q.fires = q.queue[0].wake
	if latest := q.set.monotonic.Add(clockInterval); latest.Before(q.fires) {
		q.fires = latest
	}
	fires := q.fires
	time.AfterFunc(fires.Sub(q.set.monotonic), func() { q.wakeUp(fires) })
}

// wakeUp wakes all runs that are due when the timer fires; all there are, if the
// machine was suspended.
func (q *renewals) wakeUp(set time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if set != q.fires {
		return
	}
	now := q.now()
	const noise = 100 * time.Millisecond // of a wall clock that is being adjusted
	suspended := now.wall.Sub(q.set.wall)-now.monotonic.Sub(q.set.monotonic) > noise
	for len(q.queue) > 0 && (suspended || !q.queue[0].wake.After(now.monotonic)) {
		go heap.Pop(&q.queue).(*Run).watch() //nolint:forcetypeassert // only runs are pushed
	}
	q.fires = time.Time{}
	q.arm()
}

// wakeQueue is a heap by the time to wake. Runs mostly come in that order, and are
// removed wherever they are.
type wakeQueue []*Run

func (q wakeQueue) Len() int { return len(q) }

func (q wakeQueue) Less(i, j int) bool { return q[i].wake.Before(q[j].wake) }

func (q wakeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *wakeQueue) Push(x any) {
	run := x.(*Run) //nolint:forcetypeassert // only runs are pushed
	run.place = len(*q)
	*q = append(*q, run)
}

func (q *wakeQueue) Pop() any {
	last := len(*q) - 1
	run := (*q)[last]
	(*q)[last], run.place = nil, notQueued
	*q = (*q)[:last]
	return run
}
