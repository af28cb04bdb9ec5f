package tieredstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core/storage"
)

// errRerunNotConfirmed refuses a Forget without storage.RerunIsSafe.
var errRerunNotConfirmed = errors.New("tieredstore: forget: pass storage.RerunIsSafe if the request may run again")

// Lookup implements [storage.Inspector]. It reads the durable tier. When that tier is
// no Inspector, Lookup returns an error that is [errors.ErrUnsupported].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return nil, unsupported("look up", "durable", s.durable)
	}
	return durable.Lookup(ctx, key)
}

// List implements [storage.Inspector]. It reads the durable tier. When that tier is
// no Inspector, List returns an error that is [errors.ErrUnsupported].
func (s *Store) List(ctx context.Context, state storage.State, cursor string, limit int) (page []storage.Entry, next string, err error) {
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return nil, "", unsupported("list", "durable", s.durable)
	}
	return durable.List(ctx, state, cursor, limit)
}

// Forget implements [storage.Inspector]. It reports whether the durable tier had a
// record. It closes the key in the hot tier first: if that fails, the record stays,
// and Forget can be repeated. For five seconds and a [HotTimeout] only the durable
// tier then serves the key. When one of the tiers is no Inspector, Forget removes no
// record and returns an error that is [errors.ErrUnsupported].
func (s *Store) Forget(ctx context.Context, key string, word storage.Word) (bool, error) {
	if word != storage.RerunIsSafe {
		return false, errRerunNotConfirmed
	}
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return false, unsupported("forget", "durable", s.durable)
	}
	if s.hot.inspector == nil {
		return false, unsupported("forget", "hot", s.hot.store)
	}
	if err := s.hot.close(ctx, key); err != nil {
		return false, fmt.Errorf("tieredstore: forget %q: no record was removed: hot tier: %w", key, err)
	}
	return durable.Forget(ctx, key, word)
}
