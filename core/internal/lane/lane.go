// Package lane lets concurrent calls share statements of a database.
package lane

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

const (
	// batchCalls and batchBytes bound a batch.
	batchCalls = 128
	batchBytes = 1 << 20
	// longestWait bounds how long calls wait for the statement before theirs. A
	// statement that takes longer waits for a locked row, or its server is distant or
	// frozen: its end says nothing about the next one.
	longestWait = 50 * time.Millisecond
)

// Lane lets concurrent calls share a statement, and so a commit and a round trip. A call
// that finds a statement free lets the calls that are ready to run join it, and is sent
// with them at once, or alone. The calls that find none free wait, and are one batch. See
// free.
//
// A batch runs in a goroutine of its own, which ends with the batch. So a caller can
// leave at any time, and an idle lane has no goroutine.
type Lane[Q, R any] struct {
	// Client names the code that Send runs, whose panic is an error.
	Client string
	// Send decides calls of a batch, of which there are at least two, by Call.Decide, and
	// reports whether it has written. After an error their outcome is unknown, decided or
	// not. A call that Send leaves undecided is sent alone.
	Send func(ctx context.Context, batch []*Call[Q, R]) (wrote bool, err error)
	// Statements is how many may be under way before calls wait, see free.
	Statements int
	// Always makes a batch of a single call too. Only tests set it.
	Always bool

	mutex sync.Mutex
	// running are the statements that new calls wait for, and last is the number of the newest.
	running []statement
	last    uint64
	// wrote: the last batch has written, and calls have waited ever since.
	wrote bool
	// gathering: the last statement waits for calls to join it, see gather.
	gathering bool
	waiting   []*Call[Q, R]
	overdue   *time.Timer // nil before the first call that waits; runs while calls wait
}

// statement is a statement under way, with so many calls.
type statement struct {
	number uint64
	calls  int
}

// Do sends a request of so many bytes and returns its result. It sends the request in a
// batch with others, or calls alone on the caller's goroutine. When ctx ends first, Do
// returns its error, and the request may still be sent.
func (l *Lane[Q, R]) Do(ctx context.Context, request Q, bytes int, alone func() (R, error)) (R, error) {
	c, number := l.join(ctx, request, bytes)
	if c == nil {
		// The callers of a batch get their results, and make their next calls, together.
		// Without a turn for the others, the first of them would be sent alone, and all
		// others would wait for its commit: 16 callers would make a quarter fewer calls. A lone
		// caller goes on at once.
		runtime.Gosched()
		c, number = l.gather(ctx, request, bytes, number)
	}
	if c != nil {
		var none R
		select {
		case <-c.ended:
		case <-ctx.Done():
			l.leave(c)
			return none, ctx.Err()
		}
		switch {
		case c.err != nil:
			return none, c.err
		case c.decided:
			return c.result, nil
		}
		number = c.alone
	}
	defer l.end(number)
	return alone()
}

// join returns a call that waits, or the number of a statement that gathers calls.
func (l *Lane[Q, R]) join(ctx context.Context, request Q, bytes int) (*Call[Q, R], uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.free(len(l.waiting) + 1) {
		l.gathering = true
		return nil, l.start()
	}
	c := newCall[Q, R](ctx, request, bytes)
	l.waiting = append(l.waiting, c)
	if len(l.waiting) == 1 {
		l.limitWait()
	}
	return c, 0
}

// gather ends the turn that join gave to other callers. If calls have joined meanwhile, it
// sends this call and those in one batch, and returns this call. Otherwise it returns the
// number of the statement that the caller is to send alone.
func (l *Lane[Q, R]) gather(ctx context.Context, request Q, bytes int, number uint64) (*Call[Q, R], uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.gathering = false
	if len(l.waiting) == 0 && !l.Always {
		return nil, number
	}
	c := newCall[Q, R](ctx, request, bytes)
	l.waiting = slices.Insert(l.waiting, 0, c)
	l.send(number)
	l.next()
	return c, 0
}

// leave is for a caller whose ctx has ended. The caller may have been told to send its
// statement in the same moment.
func (l *Lane[Q, R]) leave(c *Call[Q, R]) {
	l.mutex.Lock()
	number := c.alone
	l.mutex.Unlock()
	l.end(number)
}

func (l *Lane[Q, R]) start() uint64 {
	l.last++
	l.running = append(l.running, statement{l.last, 1})
	return l.last
}

// free reports whether a statement with so many calls may be sent. Batches that write are
// sent one after the other: the larger they are, the fewer commits there are, which saves
// 16 to 64 callers a tenth of the processor time. Of the batches that only read, one uses
// the time that another one is at the server, and so do single statements.
//
// Beside a batch, calls wait until they are half as many: a call that is sent alone takes
// three times the processor time, and 16 callers would make a seventh fewer calls.
func (l *Lane[Q, R]) free(calls int) bool {
	most := l.Statements
	if l.wrote {
		most = 1
	}
	return len(l.running) < most && !l.gathering &&
		!slices.ContainsFunc(l.running, func(other statement) bool { return calls < other.calls/2 })
}

// end ends the wait for a single statement, and sends the calls that have waited for it.
// It does nothing for zero, and for a statement that is overdue.
func (l *Lane[Q, R]) end(number uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.forget(number) {
		l.wrote = l.wrote && len(l.waiting) > 0
		l.next()
	}
}

// endBatch is end for a batch.
func (l *Lane[Q, R]) endBatch(number uint64, wrote bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.forget(number) {
		l.wrote = wrote
		l.next()
	}
}

func (l *Lane[Q, R]) forget(number uint64) bool {
	i := l.index(number)
	if i >= 0 {
		l.running = slices.Delete(l.running, i, i+1)
	}
	return i >= 0
}

// index is less than 0 for a statement that new calls do not wait for.
func (l *Lane[Q, R]) index(number uint64) int {
	return slices.IndexFunc(l.running, func(s statement) bool { return s.number == number })
}

func (l *Lane[Q, R]) limitWait() {
	if l.overdue == nil {
		l.overdue = time.AfterFunc(longestWait, l.waitNoLonger)
		return
	}
	l.overdue.Reset(longestWait)
}

func (l *Lane[Q, R]) waitNoLonger() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.waiting) > 0 { // and were not sent in this moment
		l.running = l.running[:0]
		l.next()
	}
}

// next sends the calls that wait, as far as statements are free. Calls that join another
// one are sent with it.
func (l *Lane[Q, R]) next() {
	for len(l.waiting) > 0 && l.free(len(l.waiting)) {
		l.send(l.start())
	}
	switch {
	case len(l.waiting) > 0:
		l.limitWait()
	case l.overdue != nil:
		l.overdue.Stop()
	}
}

// send sends calls that wait, as many as a batch may have.
func (l *Lane[Q, R]) send(number uint64) {
	switch batch := l.take(); {
	case len(batch) == 0:
		l.forget(number)
	case len(batch) == 1 && !l.Always:
		batch[0].alone = number
		batch[0].ended <- struct{}{}
	default:
		if i := l.index(number); i >= 0 {
			l.running[i].calls = len(batch)
		}
		go l.run(number, batch)
	}
}

// take removes the calls of the next batch. It drops calls whose callers have left.
func (l *Lane[Q, R]) take() (batch []*Call[Q, R]) {
	taken, bytes := 0, 0
	for _, c := range l.waiting {
		if len(batch) == batchCalls || len(batch) > 0 && bytes+c.bytes > batchBytes {
			break
		}
		taken++
		if !c.Left() {
			batch, bytes = append(batch, c), bytes+c.bytes
		}
	}
	l.waiting = slices.Delete(l.waiting, 0, taken)
	return batch
}

func (l *Lane[Q, R]) run(number uint64, batch []*Call[Q, R]) {
	ctx, cancel := untilTheLast(batch)
	defer cancel()
	var wrote bool
	err := panicked.Call(l.Client, func() (err error) {
		wrote, err = l.Send(ctx, batch)
		return err
	})
	l.endBatch(number, wrote) // first, so that the next batch is on its way
	for _, c := range batch {
		c.err = err
		c.ended <- struct{}{}
	}
}

// Hold lets calls wait as if a statement were under way, until release: a test then has them
// in one batch, as far as its bounds allow.
func (l *Lane[Q, R]) Hold() (release func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.overdue = time.AfterFunc(time.Hour, func() {}) // never, however slow the test
	l.Statements = 1
	number := l.start()
	return func() { l.end(number) }
}

// Waiting is how many calls wait.
func (l *Lane[Q, R]) Waiting() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.waiting)
}

// Wrote reports whether the last statement was a batch that has written.
func (l *Lane[Q, R]) Wrote() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.wrote
}
