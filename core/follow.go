package core

import (
	"context"
	"errors"

	"github.com/oncekey/oncekey/core/storage"
)

// confirm shows a result that the store has confirmed. If the response streams, no retry
// needs the handler any more, and the handler's context follows the client.
func (r *Run) confirm(result *storage.Result) {
	r.show(result, true)
	if r.streams {
		r.context.follow()
	}
}

// follow makes the client's disconnect end the context from now on, with the cause that
// the request's context has. The deadline of that context is this one's already.
func (c *runContext) follow() {
	disconnected := func() {
		if errors.Is(c.parent.Err(), context.Canceled) {
			c.end(context.Cause(c.parent))
		}
	}
	if c.parent.Err() != nil {
		disconnected()
		return
	}
	leave := context.AfterFunc(c.parent, disconnected)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait(); c.ended {
		leave()
		return
	}
	cancel := c.cancel
	c.cancel = func(cause error) {
		leave()
		cancel(cause)
	}
}
