package sqlstore

import (
	"context"

	"github.com/oncekey/oncekey/core/storage"
)

// Acquire implements [storage.Store]. For a row that is not a valid record it returns
// a wrapped storage.ErrCorruptRecord that names the fault.
func (s *Store) Acquire(ctx context.Context, r storage.Request) (storage.Lease, *storage.Record, error) {
	return s.records.Acquire(ctx, r)
}
