package core

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/guarded"
)

// runFrom returns the run of a context, or one with its keys alone (see unprotected), or nil.
func runFrom(ctx context.Context) *Run {
	run, _ := guarded.Value(ctx, runKey{}).(*Run)
	return run
}

// RouteFrom returns the route that has decided about the request or the call of ctx: one
// that guards it, observes it, or has let it through, such as a request without a key. It
// returns nil where no route has. Adapters call RouteFrom, so that a request is guarded once.
func RouteFrom(ctx context.Context) *Route {
	switch found := recorderOf(ctx).(type) {
	case *Run:
		return found.identity.route
	case *Route:
		return found
	default:
		return nil
	}
}

// KeyFrom returns the idempotency key that the client sent with the guarded request
// of ctx, or "" outside a guarded route. Two clients may choose the same key. For a
// provider that does not separate your clients, use DeriveKey.
func KeyFrom(ctx context.Context) string {
	if run := runFrom(ctx); run != nil {
		return run.identity.request.Key
	}
	return ""
}

// DeriveKey returns a key for one step of the handler at another service, such as a
// charge at a payment provider. The key has 64 hex digits. It is the same in every
// attempt of this request, and different for every other name, key, scope and route.
// DeriveKey returns "" outside a guarded route, and for a request without a key, of an observing route
// or of SkipIf. Do not send "" to a provider: two payments could become one. FailOpen changes no key.
func DeriveKey(ctx context.Context, name string) string {
	run := runFrom(ctx)
	if run == nil {
		return ""
	}
	return DerivedKey(run.identity.record, name)
}

// DerivedKey returns the key that DeriveKey returns in the runs of a record, given the
// record's storage key (storage.Entry.Key, Event.Record). Operators look it up at the other
// service.
func DerivedKey(storageKey, name string) string {
	sum := frame.Sum("derive", storageKey, name)
	return hex.EncodeToString(sum[:])
}

// maxKeep is the longest time for which a response is kept, as for policy.TTL.
const maxKeep = 10 * 365 * 24 * time.Hour

// KeepFor keeps the response of this run for d, in place of the policy's TTL: longer
// for a payment, shorter for a preview. The key is remembered for the policy's Remember
// after d. Call KeepFor inside the handler or function; the last call counts. Inside a
// policy.RecoverFunc it counts for the response that the function finds. A d above ten
// years counts as ten years. KeepFor has no effect on a run that releases its key.
//
// KeepFor returns false, without effect, outside a guarded run, after the response was
// settled, and for a d below a millisecond.
func KeepFor(ctx context.Context, d time.Duration) bool {
	run := runFrom(ctx)
	if run == nil || run.hold.Lease.Attempt == 0 || d < time.Millisecond {
		return false
	}
	return run.hold.KeepFor(min(d, maxKeep))
}

// LeaseFrom returns the lease under which the handler of ctx runs. Its Attempt is a
// fencing token. A resource that remembers the highest attempt of each key can reject
// a handler that has lost its lease and has not noticed yet.
func LeaseFrom(ctx context.Context) (storage.Lease, bool) {
	if run := runFrom(ctx); run != nil && run.hold.Lease.Attempt > 0 {
		return run.hold.Lease, true
	}
	return storage.Lease{}, false
}
