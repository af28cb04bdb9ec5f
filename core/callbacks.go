package core

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/storage"
)

// The engine calls a program's callbacks, and each callback can panic: in a request,
// or on a goroutine of the engine that has no recover. A panic must not leave a key
// in progress. The engine therefore turns a store's panic into an error, replaces a
// problem.Writer that panics by the default writer, and logs an Observer's panic to
// the default logger.

// guardedStore turns panics of a store into errors.
type guardedStore struct {
	storage.Store
	finder storage.Finder // the store, or nil
}

func guard(store storage.Store) guardedStore {
	finder, _ := store.(storage.Finder)
	return guardedStore{store, finder}
}

// Acquire sends the claim of l, and makes l the new lease or returns a record. It hides the
// store's own Acquire, whose panic would not be recovered.
func (s guardedStore) Acquire(ctx context.Context, l *storage.Lease) (r *storage.Record, err error) {
	defer panicked.ToError("Store", &err)
	granted, r, err := s.Store.Acquire(ctx, l.Claim)
	if err == nil && r == nil {
		*l = granted
	}
	return r, err
}

// find returns the finished record of a key and of a request with equal bytes, if the
// store keeps its records in memory.
func (s guardedStore) find(ctx context.Context, key [sha256.Size]byte, digest storage.Digest) (r *storage.Record, err error) {
	if s.finder == nil || digest == (storage.Digest{}) {
		return nil, nil //nolint:nilnil // Acquire decides
	}
	defer panicked.ToError("Store", &err)
	return s.finder.Find(ctx, key, digest), nil
}

func (s guardedStore) Complete(ctx context.Context, l storage.Lease, res storage.Result) (err error) {
	defer panicked.ToError("Store", &err)
	return s.Store.Complete(ctx, l, res)
}

func (s guardedStore) Release(ctx context.Context, l storage.Lease) (err error) {
	defer panicked.ToError("Store", &err)
	return s.Store.Release(ctx, l)
}

func (s guardedStore) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) (err error) {
	defer panicked.ToError("Store", &err)
	return s.Store.Extend(ctx, l, ttl)
}

// BeginTransaction must only be called for a Transactor. Engine.Route checks that.
func (s guardedStore) BeginTransaction(ctx context.Context, l storage.Lease) (handler context.Context, tx storage.Transaction, err error) {
	defer panicked.ToError("Transactor", &err)
	handler, tx, err = s.Store.(storage.Transactor).BeginTransaction(ctx, l) //nolint:forcetypeassert // checked by Engine.Route
	return handler, guardedTransaction{tx}, err
}

type guardedTransaction struct{ storage.Transaction }

func (t guardedTransaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) (err error) {
	defer panicked.ToError("Transaction", &err)
	return t.Transaction.Commit(ctx, l, res)
}

func (t guardedTransaction) Rollback(ctx context.Context) (err error) {
	defer panicked.ToError("Transaction", &err)
	return t.Transaction.Rollback(ctx)
}

// guardedObserver logs an Observer's panics, which the Observer cannot report.
type guardedObserver struct{ event.Observer }

func (o guardedObserver) Observe(ctx context.Context, happened event.Event) {
	defer func() {
		if err := panicked.Error("Observer", recover()); err != nil {
			event.Log(nil).Observe(context.Background(), event.Event{Result: event.CallbackPanicked, Err: err})
		}
	}()
	o.Observer.Observe(ctx, happened)
}
