package redisstore

import (
	"context"
	"time"
)

// sharedStep is how much later than its deadline a call may end.
const sharedStep = time.Second / 64

// sharedEnd is the end of all calls whose deadlines lie in one step.
type sharedEnd struct {
	done  chan struct{}
	err   error // set when done is closed: the deadline's error, or a failed dial's
	timer *time.Timer
}

// share returns the end of a call that has some time left, or nil while the last dial
// has failed. A timer, a channel and two contexts for each call took a sixth of the
// memory of a first-time request, and a quarter of its allocations.
func (d *dialing) share(left time.Duration) *sharedEnd {
	step := int64((time.Since(d.start)+left)/sharedStep) + 1
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.failure != nil {
		return nil
	}
	end := d.shared[step]
	if end == nil {
		end = &sharedEnd{done: make(chan struct{})}
		d.shared[step] = end
		end.timer = time.AfterFunc(time.Until(d.start.Add(time.Duration(step)*sharedStep)), func() {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			if d.shared[step] == end { // else a failed dial was faster
				d.close(step, end, context.DeadlineExceeded)
			}
		})
	}
	return end
}

// close ends the calls. The caller holds the mutex.
func (d *dialing) close(step int64, end *sharedEnd, err error) {
	delete(d.shared, step)
	end.err = err
	close(end.done)
}

// sharedContext ends with a sharedEnd, and not with its parent.
type sharedContext struct {
	context.Context //nolint:containedctx // it is the parent
	end             *sharedEnd
}

// Done implements context.Context.
func (c *sharedContext) Done() <-chan struct{} { return c.end.done }

// Err implements context.Context.
func (c *sharedContext) Err() error {
	select {
	case <-c.end.done:
	default:
		return nil
	}
	if c.end.err == context.DeadlineExceeded { //nolint:errorlint // identity is meant, not Is
		return context.DeadlineExceeded
	}
	return context.Canceled
}
