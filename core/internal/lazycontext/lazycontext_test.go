package lazycontext_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type key struct{}

// parent returns a context with a value, and its cancel function.
func parent(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	t.Cleanup(cancel)
	return ctx, cancel
}

// advance lets d pass in a synctest bubble, where it takes no time.
func advance(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's clock, not the machine's

// eachWay begins a context, and tests it without a call of Done, with a call, and with a child.
func eachWay(t *testing.T, begin func(c *lazycontext.Context, parent context.Context) context.Context, test func(t *testing.T, w way)) {
	t.Helper()
	testkit.EachInBubble(t, map[string]func(context.Context){
		"without Done":    func(context.Context) {},
		"with Done":       func(ctx context.Context) { ctx.Done() },
		"a child follows": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
	}, func(t *testing.T, use func(context.Context)) {
		outer, cancel := parent(t)
		var c lazycontext.Context
		ctx := begin(&c, outer)
		use(ctx)
		test(t, way{ctx, cancel, &c})
		c.Release()
	})
}

// way is a context of eachWay.
type way struct {
	context.Context
	cancel func() // its parent
	lazy   *lazycontext.Context
}

func expect(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	synctest.Wait()
	if err := ctx.Err(); !errors.Is(err, want) {
		t.Errorf("its error is %v, want %v", err, want)
	}
	testkit.Equal(t, ctx.Value(key{}), "value", "its value")
	if want != nil {
		<-ctx.Done()
	}
}

func TestDetachedContextEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	eachWay(t, func(c *lazycontext.Context, parent context.Context) context.Context {
		return c.Detach(parent, time.Now(), time.Second)
	}, func(t *testing.T, w way) {
		w.cancel()
		expect(t, w, nil)
		if deadline, limited := w.Deadline(); !limited || time.Until(deadline) != time.Second {
			t.Errorf("its deadline is %v (%t), want in a second", deadline, limited)
		}
		advance(time.Second)
		expect(t, w, context.DeadlineExceeded)
	})
}

func TestLimitedContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	eachWay(t, func(c *lazycontext.Context, parent context.Context) context.Context {
		return c.Limit(parent, time.Second)
	}, func(t *testing.T, w way) {
		expect(t, w, nil)
		w.cancel()
		expect(t, w, context.Canceled)
	})
}

func TestEarlierDeadlineCounts(t *testing.T) {
	t.Parallel()
	eachWay(t, func(c *lazycontext.Context, parent context.Context) context.Context {
		earlier, cancel := context.WithTimeout(parent, time.Second)
		t.Cleanup(cancel)
		return c.Limit(earlier, time.Minute)
	}, func(t *testing.T, w way) {
		advance(time.Second)
		expect(t, w, context.DeadlineExceeded)
	})
}

func TestReleaseEndsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer, _ := parent(t)
		var c lazycontext.Context
		done := c.Limit(outer, time.Hour).Done()
		c.Release()
		<-done
		var unused lazycontext.Context
		unused.Detach(outer, time.Now(), time.Hour)
		unused.Release()
	})
}

// Case 35: after Release the context has ended, also for callers that only call Err.
func TestReleasedContextHasEnded(t *testing.T) {
	t.Parallel()
	eachWay(t, func(c *lazycontext.Context, parent context.Context) context.Context {
		return c.Detach(parent, time.Now(), time.Hour)
	}, func(t *testing.T, w way) {
		w.lazy.Release()
		expect(t, w, context.Canceled)
	})
}

// Case 35: the second use of a context panics, so that it does not look like an
// unreachable store.
func TestContextIsUsedOnce(t *testing.T) {
	t.Parallel()
	var c lazycontext.Context
	c.Detach(t.Context(), time.Now(), 0)
	c.Release()
	testkit.Panics(t, map[string]func(){
		"Detach": func() { c.Detach(t.Context(), time.Now(), 0) },
		"Limit":  func() { c.Limit(t.Context(), 0) },
	})
}

// BenchmarkDetach compares this package with package context, for one call to a store
// that never waits.
func BenchmarkDetach(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	now := time.Now()
	b.Run("lazycontext", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c lazycontext.Context
			if c.Detach(parent, now, time.Hour).Err() != nil {
				b.Fatal("the context has ended")
			}
			c.Release()
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithDeadline(context.WithoutCancel(parent), now.Add(time.Hour))
			if ctx.Err() != nil {
				b.Fatal("the context has ended")
			}
			cancel()
		}
	})
}
