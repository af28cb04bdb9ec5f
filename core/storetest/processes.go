package storetest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Processes returns a store that makes each call at one of the given stores, by chance, as
// requests reach the processes of a service. The stores are over the same records. Return it
// from Config.New for a store that processes share: a lock or a cache in one process
// protects nothing at another one.
//
// The store is a [storage.Inspector] if all of the stores are. It hides their other
// interfaces.
func Processes(stores ...storage.Store) storage.Store {
	inspectors := make([]storage.Inspector, 0, len(stores))
	for _, store := range stores {
		if inspector, is := store.(storage.Inspector); is {
			inspectors = append(inspectors, inspector)
		}
	}
	if len(inspectors) < len(stores) {
		return processes(stores)
	}
	return inspected{processes(stores), inspectors}
}

func oneOf[T any](all []T) T { return all[rand.IntN(len(all))] }

type processes []storage.Store

func (p processes) Acquire(ctx context.Context, r storage.Request) (storage.Lease, *storage.Record, error) {
	return oneOf(p).Acquire(ctx, r)
}

func (p processes) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	return oneOf(p).Complete(ctx, l, res)
}

func (p processes) Release(ctx context.Context, l storage.Lease) error {
	return oneOf(p).Release(ctx, l)
}

func (p processes) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return oneOf(p).Extend(ctx, l, ttl)
}

type inspected struct {
	processes
	inspectors []storage.Inspector
}

func (i inspected) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	return oneOf(i.inspectors).Lookup(ctx, key)
}

func (i inspected) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	return oneOf(i.inspectors).List(ctx, filter, page)
}

func (i inspected) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	return oneOf(i.inspectors).Settle(ctx, key, attempt, confirmation)
}

func (i inspected) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	return oneOf(i.inspectors).Forget(ctx, key, confirmation)
}
