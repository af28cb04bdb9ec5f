package failure

import (
	"context"
	"strings"
	"sync"

	"github.com/oncekey/oncekey/internal/guarded"
)

// ContextKey names the guarded context in a router's own context type, for types
// that look up only strings (gin's, in its default configuration). Adapters set
// it. The value is a context.Context.
const ContextKey = guarded.ContextKey

type marksKey struct{}

// Marks collects the marks of one run. The zero Marks is ready for use, is safe
// for concurrent use, and must not be copied.
type Marks struct {
	mu        sync.Mutex
	retryable bool
	executed  bool
	uncertain bool
	sealed    bool
	reason    string
}

// NewContext returns a context that carries marks to a handler. Use it to test
// handlers without a guard.
func NewContext(ctx context.Context, marks *Marks) context.Context {
	return context.WithValue(ctx, marksKey{}, marks)
}

// Value returns m for this package's own context key, and nil for any other key.
// A context type that carries marks calls it from its own Value method.
func (m *Marks) Value(key any) any {
	if key == (marksKey{}) {
		return m
	}
	return nil
}

// MarkRetryable releases the key when the handler returns: a retry runs the handler
// again, and its payload may differ. Call it while no side effect has happened.
// The event and the log have the reason, up to 1,000 bytes: keep request values out of it.
//
// MarkRetryable returns false, without effect, outside a guarded route and after
// the response was settled (the handler has returned, or its response is already
// streaming). After MarkExecuted it returns true but has no effect.
func MarkRetryable(ctx context.Context, reason ...string) bool {
	return marksFrom(ctx).set(func(m *Marks) {
		m.retryable = true
		m.explain(reason)
	})
}

// MarkExecuted marks the point of no return: the side effect has happened and must
// not happen twice. Call it right after the side effect. Every response is then
// stored under the key, even an error status or the 500 of a panic.
//
// MarkExecuted returns false, without effect, outside a guarded route and after the
// response was settled.
func MarkExecuted(ctx context.Context) bool {
	return marksFrom(ctx).set(func(m *Marks) { m.executed = true })
}

// MarkUncertain leaves the key abandoned, as a crash does. Call it when the side
// effect may or may not have happened: a provider's reply was lost or came too late.
// The client gets the handler's response. The policy's OnAbandoned decides about the
// next request: the handler runs again, the engine refuses the request, or a
// RecoverFunc decides. For the reason see MarkRetryable.
//
// MarkUncertain returns false, without effect, outside a guarded route and after the
// response was settled. After MarkExecuted it returns true but has no effect.
// MarkUncertain takes precedence over MarkRetryable.
func MarkUncertain(ctx context.Context, reason ...string) bool {
	return marksFrom(ctx).set(func(m *Marks) {
		m.uncertain = true
		m.explain(reason)
	})
}

// maxReason is in bytes. An error's text may quote all that a client has sent, and logs and observers keep it.
const maxReason = 1000

// explain sets the reason, unless the mark has none.
func (m *Marks) explain(reason []string) {
	if text := strings.Join(reason, " "); text != "" {
		m.reason = strings.Clone(strings.ToValidUTF8(text[:min(len(text), maxReason)], ""))
	}
}

// Read adds the marks set so far to an outcome. It also returns the last reason.
func (m *Marks) Read(o Outcome) (Outcome, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Retryable = o.Retryable || m.retryable
	o.Executed = o.Executed || m.executed
	o.Uncertain = o.Uncertain || m.uncertain
	return o, m.reason
}

// Seal ends the collection: later marks have no effect and return false.
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

// marksFrom returns the marks of ctx, or nil.
func marksFrom(ctx context.Context) *Marks {
	marks, _ := guarded.Value(ctx, marksKey{}).(*Marks)
	return marks
}
