package sqlstore

import (
	"context"

	"github.com/oncekey/oncekey/core/storage"
)

// Lookup implements [storage.Inspector].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	return s.records.Lookup(ctx, key)
}

// List implements [storage.Inspector]. Pages are in the order of their keys. List skips
// an unreadable record, and logs a warning with the record's key.
func (s *Store) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	return s.records.List(ctx, filter, page)
}

// Settle implements [storage.Inspector].
func (s *Store) Settle(ctx context.Context, key string, attempt uint64, word storage.Word) error {
	return s.records.Settle(ctx, key, attempt, word)
}

// Forget implements [storage.Inspector]. It also deletes the attempt number.
func (s *Store) Forget(ctx context.Context, key string, word storage.Word) (bool, error) {
	return s.records.Forget(ctx, key, word)
}
