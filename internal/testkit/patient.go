package testkit

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Inspectable is a store whose records can be inspected.
type Inspectable interface {
	storage.Store
	storage.Inspector
}

// Patient is a store whose calls for requests do not end with their contexts. It is for a test that must not see a timeout on
// a busy machine, where a longer time limit would change more.
type Patient struct{ Inspectable }

// Acquire implements storage.Store.
func (p Patient) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	return p.Inspectable.Acquire(context.WithoutCancel(ctx), request.Claim())
}

// Complete implements storage.Store.
func (p Patient) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	return p.Inspectable.Complete(context.WithoutCancel(ctx), l, r)
}

// Release implements storage.Store.
func (p Patient) Release(ctx context.Context, l storage.Lease) error {
	return p.Inspectable.Release(context.WithoutCancel(ctx), l)
}

// Extend implements storage.Store.
func (p Patient) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return p.Inspectable.Extend(context.WithoutCancel(ctx), l, ttl)
}
