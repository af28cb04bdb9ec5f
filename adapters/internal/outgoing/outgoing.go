// Package outgoing is shared by the adapters of clients: the keys of calls, and the
// waits between attempts.
package outgoing

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/guarded"
)

type callName struct{}

// WithCall names a call within a guarded request.
func WithCall(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callName{}, name)
}

// NewKey derives a key from the outer request's key, if any. The outer handler may run
// again, and must then repeat its calls with the same keys. Otherwise the key is random.
func NewKey(ctx context.Context, operation string) string {
	name, _ := guarded.Value(ctx, callName{}).(string)
	if derived := core.DeriveKey(ctx, operation+"\n"+name); derived != "" {
		return derived
	}
	return uuid.NewString()
}

// Pause returns the wait before attempt n+2:
// min(max(base*2^n, asked) + jitter, most) with a jitter up to base*2^n.
func Pause(base, most time.Duration, n int, asked time.Duration) time.Duration {
	grown := doubled(base, most, n)
	jitter := rand.N(min(grown, math.MaxInt64-1) + 1) //nolint:gosec // jitter is not secret
	least := min(max(grown, asked), most)
	return least + min(jitter, most-least)
}

// doubled returns the smaller of base*2^n and most. It cannot overflow.
func doubled(base, most time.Duration, n int) time.Duration {
	if base > most>>n {
		return most
	}
	return base << n
}
