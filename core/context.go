package core

import (
	"context"
	"encoding/hex"

	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// runFrom returns the run of a context, or of the guarded context that an adapter
// published under failure.ContextKey, or nil.
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

// KeyFrom returns the idempotency key that the client sent with the guarded request
// of ctx, or "" outside a guarded route. Two clients may choose the same key. For a
// provider that does not separate your clients, use DeriveKey.
func KeyFrom(ctx context.Context) string {
	if run := runFrom(ctx); run != nil {
		return run.subject.request.Key
	}
	return ""
}

// DeriveKey returns a key for one step of the handler at another service, such as a
// charge at a payment provider. The key has 64 hex digits. It is the same in every
// attempt of this request, and different for every other name, key, scope and route.
// Outside a guarded route DeriveKey returns "".
func DeriveKey(ctx context.Context, name string) string {
	run := runFrom(ctx)
	if run == nil {
		return ""
	}
	sum := frame.Sum("derive", run.lease.Key, name)
	return hex.EncodeToString(sum[:])
}

// LeaseFrom returns the lease under which the handler of ctx runs. Its Attempt is a
// fencing token. A resource that remembers the highest attempt of each key can reject
// a handler that has lost its lease and has not noticed yet.
func LeaseFrom(ctx context.Context) (storage.Lease, bool) {
	if run := runFrom(ctx); run != nil {
		return run.lease, true
	}
	return storage.Lease{}, false
}
