package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// callStore gives one call at the store a deadline.
func callStore(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}

// inBackground runs work that outlives its request. Shutdown waits for it, and
// ends its context when it waits no longer.
func (e *Engine) inBackground(work func(ctx context.Context)) {
	e.live.begin()
	go func() {
		defer e.live.end()
		work(e.live.background)
	}()
}

// backoff grows from first to at most limit by doubling, with full jitter
// between half of it and all of it.
func backoff(try int, first, limit time.Duration) time.Duration {
	d := limit
	if try < 16 {
		d = min(limit, first<<try)
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter is no secret
}

// sleep waits, and reports false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
