package lane

import (
	"context"
	"slices"
	"strings"
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

// ByKey are the calls of a batch, grouped by key, in the order of keys.
type ByKey[Q, R any] struct {
	keys []string
	// Groups are the calls of each key.
	Groups [][]*Call[Q, R]
}

// GroupByKey groups the calls whose callers have not left.
func GroupByKey[Q, R any](batch []*Call[Q, R], key func(Q) string) (b ByKey[Q, R]) {
	rest := make([]*Call[Q, R], 0, len(batch))
	for _, c := range batch {
		if !c.Left() {
			rest = append(rest, c)
		}
	}
	slices.SortFunc(rest, func(a, b *Call[Q, R]) int { return strings.Compare(key(a.Request), key(b.Request)) })
	for len(rest) > 0 {
		first, same := key(rest[0].Request), 1
		for same < len(rest) && key(rest[same].Request) == first {
			same++
		}
		b.keys, b.Groups = append(b.keys, first), append(b.Groups, rest[:same])
		rest = rest[same:]
	}
	return b
}

// Of returns the calls of a key of the batch.
func (b ByKey[Q, R]) Of(key string) []*Call[Q, R] {
	i, _ := slices.BinarySearch(b.keys, key)
	return b.Groups[i]
}

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
