package tieredstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core/storage"
)

// errNoWord is returned to who has not said it.
var errNoWord = errors.New("tieredstore: forget: the caller must say storage.RerunIsSafe")

// Lookup implements [storage.Inspector] with the durable tier's word. When that tier
// is no Inspector it returns an error that is [errors.ErrUnsupported].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return nil, unsupported("look up", "durable", s.durable)
	}
	return durable.Lookup(ctx, key)
}

// List implements [storage.Inspector] with the durable tier's word. When that tier is
// no Inspector it returns an error that is [errors.ErrUnsupported].
func (s *Store) List(ctx context.Context, state storage.State, cursor string, limit int) (page []storage.Entry, next string, err error) {
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return nil, "", unsupported("list", "durable", s.durable)
	}
	return durable.List(ctx, state, cursor, limit)
}

// Forget implements [storage.Inspector]. The hot tier comes first: where it fails,
// the record stands, and Forget can be repeated. For five seconds and a
// [HotTimeout] the key is then served by the durable tier alone. It reports whether the durable tier
// had a record. When one of the tiers is no Inspector it forgets nothing and
// returns an error that is [errors.ErrUnsupported].
func (s *Store) Forget(ctx context.Context, key string, word storage.Word) (bool, error) {
	if word != storage.RerunIsSafe {
		return false, errNoWord
	}
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return false, unsupported("forget", "durable", s.durable)
	}
	if s.hot.inspector == nil {
		return false, unsupported("forget", "hot", s.hot.store)
	}
	if err := s.hot.close(ctx, key); err != nil {
		return false, fmt.Errorf("tieredstore: forget %q: nothing is forgotten: hot tier: %w", key, err)
	}
	return durable.Forget(ctx, key, word)
}
