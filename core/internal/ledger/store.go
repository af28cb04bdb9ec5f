package ledger

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/storage"
)

// store turns panics of a store into errors. A panic must not leave a key in progress.
type store struct{ own storage.Store }

// acquire sets l to the new lease, or returns a record.
func (s store) acquire(ctx context.Context, request storage.Request, l *storage.Lease) (r *storage.Record, err error) {
	defer panicked.ToError("Store", &err)
	granted, r, err := s.own.Acquire(ctx, request)
	if err == nil && r == nil {
		*l = granted
	}
	return r, err
}

func (s store) complete(ctx context.Context, l storage.Lease, res storage.Result) (err error) {
	defer panicked.ToError("Store", &err)
	return s.own.Complete(ctx, l, res)
}

func (s store) release(ctx context.Context, l storage.Lease) (err error) {
	defer panicked.ToError("Store", &err)
	return s.own.Release(ctx, l)
}

func (s store) extend(ctx context.Context, l storage.Lease, ttl time.Duration) (err error) {
	defer panicked.ToError("Store", &err)
	return s.own.Extend(ctx, l, ttl)
}

// begin must only be called for a Transactor. Engine.Route checks that.
func (s store) begin(ctx context.Context, l storage.Lease) (handler context.Context, tx storage.Transaction, err error) {
	defer panicked.ToError("Transactor", &err)
	return s.own.(storage.Transactor).BeginTransaction(ctx, l) //nolint:forcetypeassert // checked by Engine.Route
}

func commit(ctx context.Context, tx storage.Transaction, l storage.Lease, res storage.Result) (err error) {
	defer panicked.ToError("Transaction", &err)
	return tx.Commit(ctx, l, res)
}

func rollback(ctx context.Context, tx storage.Transaction) (err error) {
	defer panicked.ToError("Transaction", &err)
	return tx.Rollback(ctx)
}
