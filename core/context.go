package core

import (
	"context"
	"encoding/hex"

	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// runFrom finds the run of a context, or of the guarded context that an adapter
// published in it (see failure.ContextKey); nil when there is none.
func runFrom(ctx context.Context) *Run {
	if run, ok := ctx.Value(runKey{}).(*Run); ok {
		return run
	}
	if guarded, ok := ctx.Value(failure.ContextKey).(context.Context); ok {
		run, _ := guarded.Value(runKey{}).(*Run)
		return run
	}
	return nil
}

// KeyFrom returns the idempotency key of the guarded request that ctx belongs
// to, as the client sent it, and "" outside a guarded route. It is the client's
// own choice: two clients may send the same one. To a provider that does not
// know your clients apart, hand DeriveKey's.
func KeyFrom(ctx context.Context) string {
	if run := runFrom(ctx); run != nil {
		return run.subject.request.Key
	}
	return ""
}

// DeriveKey returns a key for one step that the handler takes elsewhere, such
// as a charge at a payment provider: 64 hex digits, the same in every attempt of
// this request, and different for every other name, key, scope and route. It
// returns "" outside a guarded route.
func DeriveKey(ctx context.Context, name string) string {
	run := runFrom(ctx)
	if run == nil {
		return ""
	}
	sum := frame.Sum("derive", run.lease.Key, name)
	return hex.EncodeToString(sum[:])
}

// LeaseFrom returns the lease under which the handler of ctx runs. Its Attempt
// is a fencing token: a resource that remembers the highest one it saw for a
// key can turn away a holder that has lost its lease and does not know it yet.
func LeaseFrom(ctx context.Context) (storage.Lease, bool) {
	if run := runFrom(ctx); run != nil {
		return run.lease, true
	}
	return storage.Lease{}, false
}
