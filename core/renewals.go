package core

import (
	"container/heap"
	"sync"
	"time"
)

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

func (q wakeQueue) Len() int           { return len(q) }
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
