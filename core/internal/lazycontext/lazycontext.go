// Package lazycontext has a context with a deadline that makes its channel and its
// timer only when somebody waits for it. Calls at a store have one: a memory store
// never waits, and its callers should not pay for it.
package lazycontext

import (
	"context"
	"sync"
	"time"
)

// Context is what context.WithDeadline returns, or the same over
// context.WithoutCancel. It is made by Detach or Limit, and safe for concurrent
// use after that. It is used once.
type Context struct {
	parent   context.Context
	deadline time.Time
	detached bool

	mu      sync.Mutex
	waiting context.Context // nil until somebody asks for Done
	cancel  context.CancelFunc
}

// Detach makes c end at the deadline, whatever becomes of parent, whose values it
// has. Call Release when nobody needs it any more.
func (c *Context) Detach(parent context.Context, deadline time.Time) context.Context {
	c.parent, c.deadline, c.detached = parent, deadline, true
	return c
}

// Limit makes c end at the deadline, or with parent if that is earlier. Call Release
// when nobody needs it any more.
func (c *Context) Limit(parent context.Context, deadline time.Time) context.Context {
	if earlier, limited := parent.Deadline(); limited && earlier.Before(deadline) {
		deadline = earlier
	}
	c.parent, c.deadline = parent, deadline
	return c
}

// Release ends what waits for c.
func (c *Context) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		parent := c.parent
		if c.detached {
			parent = context.WithoutCancel(parent)
		}
		c.waiting, c.cancel = context.WithDeadline(parent, c.deadline)
	}
	return c.waiting.Done()
}

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting != nil {
		return c.waiting.Err()
	}
	if !c.detached {
		if err := c.parent.Err(); err != nil {
			return err
		}
	}
	if time.Until(c.deadline) <= 0 { // cheaper than time.Now
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. It asks the context that waits, so that package
// context finds that one and needs no goroutine to follow c.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting != nil {
		return c.waiting.Value(key)
	}
	return c.parent.Value(key)
}
