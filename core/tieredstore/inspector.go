package tieredstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core"
)

// errNoWord is returned to who has not said it.
var errNoWord = errors.New("tieredstore: forget: the caller must say core.RerunIsSafe")

// Lookup implements [core.Inspector] with the durable tier's word. When that tier
// is no Inspector it returns an error that is [errors.ErrUnsupported].
func (s *Store) Lookup(ctx context.Context, key string) (*core.Record, error) {
	durable, can := s.durable.(core.Inspector)
	if !can {
		return nil, unsupported("look up", "durable", s.durable)
	}
	return durable.Lookup(ctx, key)
}

// List implements [core.Inspector] with the durable tier's word. When that tier is
// no Inspector it returns an error that is [errors.ErrUnsupported].
func (s *Store) List(ctx context.Context, state core.State, cursor string, limit int) (page []core.Entry, next string, err error) {
	durable, can := s.durable.(core.Inspector)
	if !can {
		return nil, "", unsupported("list", "durable", s.durable)
	}
	return durable.List(ctx, state, cursor, limit)
}

// Forget implements [core.Inspector]. The hot tier comes first: where it fails,
// the record stands, and Forget can be repeated. For five seconds and a
// [HotTimeout] the key is then served by the durable tier alone. It reports whether the durable tier
// had a record. When one of the tiers is no Inspector it forgets nothing and
// returns an error that is [errors.ErrUnsupported].
func (s *Store) Forget(ctx context.Context, key string, word core.Word) (bool, error) {
	if word != core.RerunIsSafe {
		return false, errNoWord
	}
	durable, can := s.durable.(core.Inspector)
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
