package core

import (
	"context"
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
// between half of it and all of it. The jitter comes from the clock and not from
// a random source, so that a simulation on a virtual clock repeats exactly.
func backoff(try int, first, limit time.Duration) time.Duration {
	d := limit
	if try < 16 {
		d = min(limit, first<<try)
	}
	return d/2 + time.Duration(mix(uint64(time.Now().UnixNano()))%uint64(d/2+1))
}

// mix is the finalizer of splitmix64: close inputs give outputs far apart.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
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
