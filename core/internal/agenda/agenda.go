// Package agenda calls the runs of a process when they are due. All share one timer:
// most runs end before they are due, and a timer for each would cost more than the rest
// of a guard's bookkeeping.
package agenda

import (
	"container/heap"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/machine"
)

// Due is called when the time of an Entry has come, on a goroutine of its own.
type Due interface{ Due() }

// Agenda calls each Due at its time. The zero value reads the clocks of this machine. An
// Agenda is safe for concurrent use.
//
// The timer is never stopped, and may fire after its entry has gone. For an entry that is
// due earlier, the Agenda starts another timer and ignores the one before.
type Agenda struct {
	// Clock must not change after the first entry.
	Clock machine.Clock

	mu    sync.Mutex
	queue queue
	fires time.Time      // when the timer fires, not later than the first entry is due; zero: no timer
	set   machine.Moment // when the timer was set
}

// Entry is the place of one Due in an Agenda. The zero value is ready for use. Only the
// Agenda reads and changes it.
type Entry struct {
	due    Due
	at     time.Time
	place  int32 // in the queue, from 1; zero: not queued
	closed bool
}

// clockInterval is the maximum time after which an Agenda notices a suspension of the
// machine, while it has entries. Timers alone would fire late, because they follow the
// monotonic clock, which stops during a suspension.
const clockInterval = time.Second

// Put sets the time of the next call, in place of an earlier one. A closed entry is not
// called any more. A suspension of the machine calls every entry at once.
func (a *Agenda) Put(e *Entry, due Due, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.closed {
		return
	}
	e.due, e.at = due, at
	if e.place == 0 {
		heap.Push(&a.queue, e)
	} else {
		heap.Fix(&a.queue, int(e.place-1))
	}
	a.arm()
}

// Close removes the entry for good.
func (a *Agenda) Close(e *Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.closed = true
	if e.place > 0 {
		heap.Remove(&a.queue, int(e.place-1))
	}
}

// arm sets the timer for the first entry, unless the timer fires earlier.
func (a *Agenda) arm() {
	if len(a.queue) == 0 || !a.fires.IsZero() && !a.queue[0].at.Before(a.fires) {
		return
	}
	a.set = a.Clock.Now()
	a.fires = a.queue[0].at
	if latest := a.set.Monotonic.Add(clockInterval); latest.Before(a.fires) {
		a.fires = latest
	}
	fires := a.fires
	time.AfterFunc(fires.Sub(a.set.Monotonic), func() { a.wakeUp(fires) })
}

// wakeUp calls the entries that are due, or every entry if the machine was suspended.
func (a *Agenda) wakeUp(set time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if set != a.fires {
		return
	}
	now := a.Clock.Now()
	const noise = 100 * time.Millisecond // from adjustments of the wall clock
	suspended := now.Suspended(a.set) > noise
	for len(a.queue) > 0 && (suspended || !a.queue[0].at.After(now.Monotonic)) {
		go heap.Pop(&a.queue).(*Entry).due.Due() //nolint:forcetypeassert // only entries are pushed
	}
	a.fires = time.Time{}
	a.arm()
}

// queue is a heap ordered by time. Entries are mostly added in that order, and removed
// from any place.
type queue []*Entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = int32(i+1), int32(j+1)
}

func (q *queue) Push(x any) {
	added := x.(*Entry) //nolint:forcetypeassert // only entries are pushed
	*q = append(*q, added)
	added.place = int32(len(*q))
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	removed := (*q)[last]
	(*q)[last], removed.place = nil, 0
	*q = (*q)[:last]
	return removed
}
