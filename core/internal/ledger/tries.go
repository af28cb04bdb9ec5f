package ledger

import (
	"context"
	"time"
)

// within makes one call with a timeout.
func within(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}

// Backoff doubles from first up to limit, with jitter between half and all of the
// delay. The jitter comes from the clock and not from a random source, so that a
// simulation on a virtual clock repeats exactly.
func Backoff(try int, first, limit time.Duration) time.Duration {
	d := limit
	if try < 16 {
		d = min(limit, first<<try)
	}
	return d/2 + time.Duration(mix(uint64(time.Now().UnixNano()))%uint64(d/2+1))
}

// settleBackoff is short, so that a store that recovers gets the response before the
// lease ends and another process can claim the key.
func settleBackoff(try int) time.Duration {
	return Backoff(try, 20*time.Millisecond, 500*time.Millisecond)
}

// soon is the backoff of a call for which a request waits.
func soon(try int) time.Duration { return Backoff(try, 10*time.Millisecond, 100*time.Millisecond) }

// mix is the finalizer of splitmix64, which spreads close inputs far apart.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sleep waits for d. It reports false when ctx ends first.
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
