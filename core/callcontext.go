package core

import (
	"context"
	"sync"
	"time"
)

// callContext gives calls at the store their deadline, and the values of the
// request. It is what context.WithDeadline over context.WithoutCancel is, but
// makes its channel and its timer only for a store that waits: a memory store
// never does, and its callers should not pay for it.
type callContext struct {
	values   context.Context
	deadline time.Time

	mu      sync.Mutex
	waiting context.Context // nil until somebody asks for Done
	cancel  context.CancelFunc
}

// until makes c the context of a call that ends at the deadline, whatever becomes
// of parent. Call release when the call has returned.
func (c *callContext) until(parent context.Context, deadline time.Time) context.Context {
	c.values, c.deadline = parent, deadline
	return c
}

func (c *callContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting, c.cancel = context.WithDeadline(context.WithoutCancel(c.values), c.deadline)
	}
	return c.waiting.Done()
}

func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.waiting != nil:
		return c.waiting.Err()
	case !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value asks the context that waits, so that package context finds that one and
// needs no goroutine to follow this.
func (c *callContext) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting != nil {
		return c.waiting.Value(key)
	}
	return c.values.Value(key)
}
