package pgstore

import (
	"context"
	"slices"
	"sync"
	"time"
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

// lane lets concurrent calls share a statement, and so a commit and a round trip. A call
// that finds a statement free is sent alone and at once. The calls that come while all
// statements are in flight wait, and are one batch, sent when the first of these has
// ended.
//
// A batch runs in a goroutine of its own, which ends with the batch. So a caller can
// leave at any time, and an idle lane has no goroutine.
type lane[Q, R any] struct {
	// send decides calls of a batch, of which there are at least two, by call.decide.
	// After an error their outcome is unknown. A call that send leaves undecided is sent
	// alone.
	send func(ctx context.Context, batch []*call[Q, R]) error
	// statements is how many may be in flight before calls wait.
	statements int
	// always makes a batch of a single call too. Only tests set it.
	always bool

	mutex sync.Mutex
	// flying are the numbers of the statements that new calls wait for, and flights is
	// the last number.
	flying  []uint64
	flights uint64
	waiting []*call[Q, R]
	overdue *time.Timer // nil before the first call that waits
}

// call is one caller's request in a lane.
type call[Q, R any] struct {
	request Q
	bytes   int
	ctx     context.Context //nolint:containedctx // the caller's, for its end only
	ended   chan struct{}   // receives when the fields below are set
	decided bool
	result  R
	err     error
	// alone is the number of the statement that the caller is to send, or zero.
	alone uint64
}

func (c *call[Q, R]) decide(result R) { c.decided, c.result = true, result }

// do returns the result of a request that has so many bytes. The result is that of a
// batch, or of alone, which runs on the caller's goroutine. do returns the error of ctx
// when ctx ends first. The request may be sent even then.
func (l *lane[Q, R]) do(ctx context.Context, request Q, bytes int, alone func() (R, error)) (R, error) {
	c, flight := l.join(ctx, request, bytes)
	if c != nil {
		select {
		case <-c.ended:
		case <-ctx.Done():
			l.leave(c)
			var none R
			return none, ctx.Err()
		}
		switch {
		case c.decided:
			return c.result, nil
		case c.err != nil:
			return c.result, c.err
		}
		flight = c.alone
	}
	defer l.land(flight)
	return alone()
}

// join returns a call that waits, or the number of a statement that the caller is to
// send alone.
func (l *lane[Q, R]) join(ctx context.Context, request Q, bytes int) (*call[Q, R], uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.flying) < l.statements && !l.always {
		return nil, l.takeOff()
	}
	c := &call[Q, R]{request: request, bytes: bytes, ctx: ctx, ended: make(chan struct{}, 1)}
	l.waiting = append(l.waiting, c)
	switch {
	case len(l.flying) < l.statements:
		l.next()
	case len(l.waiting) == 1:
		l.limitWait()
	}
	return c, 0
}

// leave is for a caller whose ctx has ended. The caller may have been told to send its
// statement in the same moment.
func (l *lane[Q, R]) leave(c *call[Q, R]) {
	l.mutex.Lock()
	flight := c.alone
	l.mutex.Unlock()
	l.land(flight)
}

func (l *lane[Q, R]) takeOff() uint64 {
	l.flights++
	l.flying = append(l.flying, l.flights)
	return l.flights
}

// land ends the wait for a statement, and sends the calls that have waited for it. It
// does nothing for zero, and for a statement that is overdue.
func (l *lane[Q, R]) land(flight uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if i := slices.Index(l.flying, flight); i >= 0 {
		l.flying = slices.Delete(l.flying, i, i+1)
		l.next()
	}
}

func (l *lane[Q, R]) limitWait() {
	if l.overdue == nil {
		l.overdue = time.AfterFunc(longestWait, func() {
			l.mutex.Lock()
			defer l.mutex.Unlock()
			l.flying = l.flying[:0]
			l.next()
		})
		return
	}
	l.overdue.Reset(longestWait)
}

// next sends the calls that wait.
func (l *lane[Q, R]) next() {
	switch batch := l.take(); {
	case len(batch) == 0:
	case len(batch) == 1 && !l.always:
		batch[0].alone = l.takeOff()
		batch[0].ended <- struct{}{}
	default:
		go l.fly(l.takeOff(), batch)
	}
	if len(l.waiting) > 0 {
		l.limitWait()
	}
}

// take removes the calls of the next batch. It drops calls whose callers have left.
func (l *lane[Q, R]) take() (batch []*call[Q, R]) {
	taken, bytes := 0, 0
	for _, c := range l.waiting {
		if len(batch) == batchCalls || len(batch) > 0 && bytes+c.bytes > batchBytes {
			break
		}
		taken++
		if c.ctx.Err() == nil {
			batch, bytes = append(batch, c), bytes+c.bytes
		}
	}
	l.waiting = slices.Delete(l.waiting, 0, taken)
	return batch
}

func (l *lane[Q, R]) fly(flight uint64, batch []*call[Q, R]) {
	ctx, cancel := untilTheLast(batch)
	defer cancel()
	err := recovered(func() error { return l.send(ctx, batch) })
	l.land(flight) // first, so that the next batch is on its way
	for _, c := range batch {
		c.err = err
		c.ended <- struct{}{}
	}
}

// untilTheLast returns a context that ends at the latest deadline of the batch. A caller
// that leaves does not end it, and it has no values: a batch belongs to no request.
func untilTheLast[Q, R any](batch []*call[Q, R]) (context.Context, context.CancelFunc) {
	var latest time.Time
	for _, c := range batch {
		deadline, limited := c.ctx.Deadline()
		if !limited {
			return context.WithCancel(context.Background())
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(context.Background(), latest)
}
