package sqlstore

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

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
