package failure

import (
	"context"
	"strings"
	"sync"
)

// ContextKey is the name under which an adapter publishes the guarded context
// in a router's own context type, for those that look up nothing but strings
// (gin's, in its default configuration). The value is a context.Context.
const ContextKey = "oncekey.context"

type marksKey struct{}

// Marks collects what a handler said about one run. The zero Marks is ready,
// and safe for concurrent use; it must not be copied.
type Marks struct {
	mu        sync.Mutex
	retryable bool
	executed  bool
	uncertain bool
	sealed    bool
	reason    string
}

// NewContext returns a context that carries marks to a handler: for tests of
// handlers that run without a guard.
func NewContext(ctx context.Context, marks *Marks) context.Context {
	return context.WithValue(ctx, marksKey{}, marks)
}

// Value returns the marks for the key by which this package looks them up in a
// context, and nil for any other: for a context type that carries marks.
func (m *Marks) Value(key any) any {
	if key == (marksKey{}) {
		return m
	}
	return nil
}

// MarkRetryable says that nothing happened yet that a second run would repeat:
// the key is freed, and a retry with the same key runs the handler again, with
// another payload if it likes. The reason, if any, is reported in the event and in
// the log: do not put values of the request into it.
//
// It returns false, and does nothing, outside a guarded route and after the
// answer was settled (the handler has returned, or its answer is streaming
// already). After MarkExecuted it returns true but no longer counts.
func MarkRetryable(ctx context.Context, reason ...string) bool {
	return marksFrom(ctx).set(func(m *Marks) {
		m.retryable = true
		m.reason = strings.Join(reason, " ")
	})
}

// MarkExecuted is the point of no return: the side effect has happened and must
// not happen twice. From here on the answer is kept under the key whatever it
// is: an error status, or the 500 of a panic.
//
// It returns false, and does nothing, where MarkRetryable does.
func MarkExecuted(ctx context.Context) bool {
	return marksFrom(ctx).set(func(m *Marks) { m.executed = true })
}

// MarkUncertain says that the side effect may or may not have happened: a provider's
// reply was lost, or came too late. The client gets the handler's response. The key
// is left abandoned, as after a crash, and the policy's OnAbandoned decides about the
// next request: it runs again, is refused, or asks a RecoverFunc. The reason, if any,
// is reported in the event and in the log: do not put values of the request into it.
//
// It returns false, and does nothing, where MarkRetryable does. After MarkExecuted it
// returns true but no longer counts. It wins over MarkRetryable.
func MarkUncertain(ctx context.Context, reason ...string) bool {
	return marksFrom(ctx).set(func(m *Marks) {
		m.uncertain = true
		if len(reason) > 0 {
			m.reason = strings.Join(reason, " ")
		}
	})
}

// Read adds the marks so far to an outcome, and returns the reason of the last one
// that had one.
func (m *Marks) Read(o Outcome) (Outcome, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Retryable = o.Retryable || m.retryable
	o.Executed = o.Executed || m.executed
	o.Uncertain = o.Uncertain || m.uncertain
	return o, m.reason
}

// Seal ends the collection: a mark that comes later returns false.
func (m *Marks) Seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sealed = true
}

func (m *Marks) set(mark func(*Marks)) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed {
		return false
	}
	mark(m)
	return true
}

// marksFrom finds the marks of a context, or of the guarded context that an
// adapter published in it; nil when there are none.
func marksFrom(ctx context.Context) *Marks {
	if ctx == nil {
		return nil
	}
	if marks, ok := ctx.Value(marksKey{}).(*Marks); ok {
		return marks
	}
	if guarded, ok := ctx.Value(ContextKey).(context.Context); ok {
		marks, _ := guarded.Value(marksKey{}).(*Marks)
		return marks
	}
	return nil
}
