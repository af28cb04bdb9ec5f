package lazycontext_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/internal/lazycontext"
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

// Each test runs with a context without a call of Done, with a call, and with a child.
func eachWay(t *testing.T, test func(t *testing.T, use func(context.Context))) {
	t.Helper()
	ways := map[string]func(context.Context){
		"without Done":    func(context.Context) {},
		"with Done":       func(ctx context.Context) { ctx.Done() },
		"a child follows": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
	}
	for name, use := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, use) })
		})
	}
}

func expect(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	if err := ctx.Err(); !errors.Is(err, want) {
		t.Errorf("its error is %v, want %v", err, want)
	}
	if got := ctx.Value(key{}); got != "value" {
		t.Errorf("its value is %v, want its parent's", got)
	}
}

func TestDetachedContextEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, use func(context.Context)) {
		t.Helper()
		outer, cancel := parent(t)
		var c lazycontext.Context
		defer c.Release()
		ctx := c.Detach(outer, time.Now(), time.Second)
		use(ctx)
		cancel()
		synctest.Wait()
		expect(t, ctx, nil)
		if deadline, limited := ctx.Deadline(); !limited || time.Until(deadline) != time.Second {
			t.Errorf("its deadline is %v (%t), want in a second", deadline, limited)
		}
		advance(time.Second)
		synctest.Wait()
		expect(t, ctx, context.DeadlineExceeded)
		<-ctx.Done()
	})
}

func TestLimitedContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, use func(context.Context)) {
		t.Helper()
		outer, cancel := parent(t)
		var c lazycontext.Context
		defer c.Release()
		ctx := c.Limit(outer, time.Second)
		use(ctx)
		expect(t, ctx, nil)
		cancel()
		synctest.Wait()
		expect(t, ctx, context.Canceled)
		<-ctx.Done()
	})
}

func TestEarlierDeadlineCounts(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, use func(context.Context)) {
		t.Helper()
		outer, _ := parent(t)
		outer, cancel := context.WithTimeout(outer, time.Second)
		defer cancel()
		var c lazycontext.Context
		defer c.Release()
		ctx := c.Limit(outer, time.Minute)
		use(ctx)
		advance(time.Second)
		synctest.Wait()
		expect(t, ctx, context.DeadlineExceeded)
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
	eachWay(t, func(t *testing.T, use func(context.Context)) {
		t.Helper()
		above, _ := parent(t)
		var c lazycontext.Context
		ctx := c.Detach(above, time.Now(), time.Hour)
		use(ctx)
		c.Release()
		expect(t, ctx, context.Canceled)
		<-ctx.Done()
	})
}

// Case 35: the second use of a context panics, so that it does not look like an
// unreachable store.
func TestContextIsUsedOnce(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*lazycontext.Context){
		"Detach": func(c *lazycontext.Context) { c.Detach(t.Context(), time.Now(), 0) },
		"Limit":  func(c *lazycontext.Context) { c.Limit(t.Context(), 0) },
	} {
		var c lazycontext.Context
		c.Detach(t.Context(), time.Now(), 0)
		c.Release()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a used context does not panic", name)
				}
			}()
			again(&c)
		}()
	}
}
