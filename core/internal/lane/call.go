package lane

import (
	"context"
	"time"
)

// Call is one caller's request in a lane.
type Call[Q, R any] struct {
	// Request is the caller's.
	Request Q
	bytes   int
	ctx     context.Context //nolint:containedctx // the caller's, for its end only
	ended   chan struct{}   // receives when the fields below are set
	decided bool
	result  R
	err     error
	// alone is the number of the statement that the caller is to send, or zero.
	alone uint64
}

func newCall[Q, R any](ctx context.Context, request Q, bytes int) *Call[Q, R] {
	return &Call[Q, R]{Request: request, bytes: bytes, ctx: ctx, ended: make(chan struct{}, 1)}
}

// Left reports whether the caller has left. Its call need not be sent.
func (c *Call[Q, R]) Left() bool { return c.ctx.Err() != nil }

// Decide sets the call's result.
func (c *Call[Q, R]) Decide(result R) { c.decided, c.result = true, result }

// untilTheLast returns a context that ends at the latest deadline of the batch. A caller
// that leaves does not end it, and it has no values: a batch belongs to no request.
func untilTheLast[Q, R any](batch []*Call[Q, R]) (context.Context, context.CancelFunc) {
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
