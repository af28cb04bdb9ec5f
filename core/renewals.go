package core

import (
	"container/heap"
	"sync"
	"time"
)

// renewals wakes the runs whose lease is to be renewed, or that reach MaxRun. One
// timer serves them all: most runs end before their time comes, and a timer for
// each would cost more than the rest of the guard's bookkeeping.
//
// The timer is never stopped: if the run that it was set for has ended when it
// fires, there is nothing to do. One that is due earlier gets another timer, and
// what was set before that does nothing when it fires.
type renewals struct {
	mu    sync.Mutex
	queue wakeQueue
	fires time.Time // when the timer does, at the latest when the first is due; zero: it is not set
}

// notQueued is the place of a run that is not in the queue.
const notQueued = -1

// add has the run's renew called at that time, on a goroutine of its own, unless
// the run is closed.
func (q *renewals) add(run *Run, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if run.closed {
		return
	}
	run.wake = at
	heap.Push(&q.queue, run)
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
	fires := q.queue[0].wake
	q.fires = fires
	time.AfterFunc(time.Until(fires), func() { q.wakeUp(fires) })
}

// wakeUp wakes all runs that are due when the timer fires.
func (q *renewals) wakeUp(set time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if set != q.fires {
		return
	}
	for now := time.Now(); len(q.queue) > 0 && !q.queue[0].wake.After(now); {
		go heap.Pop(&q.queue).(*Run).renew() //nolint:forcetypeassert // only runs are pushed
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
