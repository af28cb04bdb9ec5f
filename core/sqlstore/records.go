package sqlstore

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Acquire implements [storage.Store]. For a row that is not a valid record it returns
// a wrapped storage.ErrCorruptRecord that names the fault.
func (s *Store) Acquire(ctx context.Context, r storage.Request) (storage.Lease, *storage.Record, error) {
	return s.records.Acquire(ctx, r)
}

// Complete implements [storage.Store].
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	return s.records.Complete(ctx, l, res)
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	return s.records.Release(ctx, l)
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return s.records.Extend(ctx, l, ttl)
}

// Sweep removes the records that expired before the last full hour, and returns their
// number. Of the records that are remembered longer, it removes the response and
// leaves a tombstone (see storage.Expired). These count when their tombstone is
// removed.
//
// It works in batches of at most batch records, until none are left. Each batch is a
// SELECT of keys, a DELETE and an UPDATE. A record that is claimed in between stays. In
// PostgreSQL so does one that another transaction has locked.
// After an error, ctx's included, the number counts the records removed before.
//
// Sweep returns an error for a batch that is not from 1 to 10,000.
func (s *Store) Sweep(ctx context.Context, batch int) (removed int64, err error) {
	return s.records.Sweep(ctx, batch)
}

// RunSweeper sweeps until ctx ends, and then returns. Run it in its own goroutine, in
// every instance:
//
//	go store.RunSweeper(ctx, 10*time.Minute)
//
// Each pause is random, from half of every to one and a half times every, so that
// instances that start together do not sweep together. The first sweep comes after
// such a pause. A failed sweep is logged, and the next sweep tries again. RunSweeper
// panics when every is below a millisecond.
func (s *Store) RunSweeper(ctx context.Context, every time.Duration) {
	s.records.RunSweeper(ctx, every)
}
