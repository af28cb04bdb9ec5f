package tieredstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

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
func (s *Store) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return storage.Listing{}, unsupported("list", "durable", s.durable)
	}
	return durable.List(ctx, filter, page)
}

// Settle implements [storage.Inspector]. The durable tier decides. Like [Store.Forget],
// Settle closes the key in the hot tier first: if that fails, no record has changed, and
// Settle can be repeated. When one of the tiers is no Inspector, Settle changes no record
// and returns an error that is [errors.ErrUnsupported].
func (s *Store) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	if _, err := records.Happened(confirmation); err != nil {
		return fmt.Errorf("tieredstore: settle %q: %w", key, err)
	}
	durable, err := s.closed(ctx, "settle", key)
	if err != nil {
		return err
	}
	return durable.Settle(ctx, key, attempt, confirmation)
}

// Forget implements [storage.Inspector]. It reports whether the durable tier had a
// record. It closes the key in the hot tier first: if that fails, the record stays,
// and Forget can be repeated. For five seconds and a [HotTimeout] only the durable
// tier then serves the key. When one of the tiers is no Inspector, Forget removes no
// record and returns an error that is [errors.ErrUnsupported].
func (s *Store) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	if confirmation != storage.RerunIsSafe {
		return false, fmt.Errorf("tieredstore: %w", records.ErrRerunNotConfirmed)
	}
	durable, err := s.closed(ctx, "forget", key)
	if err != nil {
		return false, err
	}
	return durable.Forget(ctx, key, confirmation)
}

// closed closes a key in the hot tier, and returns the durable tier.
func (s *Store) closed(ctx context.Context, operation, key string) (storage.Inspector, error) {
	durable, can := s.durable.(storage.Inspector)
	if !can {
		return nil, unsupported(operation, "durable", s.durable)
	}
	if s.hot.inspector == nil {
		return nil, unsupported(operation, "hot", s.hot.store)
	}
	if err := s.hot.close(ctx, key); err != nil {
		return nil, fmt.Errorf("tieredstore: %s %q: no record was changed: hot tier: %w", operation, key, err)
	}
	return durable, nil
}

var _ storage.Checker = (*Store)(nil)

// Check implements [storage.Checker]. It returns the result of the durable tier's
// check, or nil when that tier is no Checker. A failed check of the hot tier is only logged,
// because requests are served without the hot tier.
func (s *Store) Check(ctx context.Context) (err error) {
	if durable, can := s.durable.(storage.Checker); can {
		err = durable.Check(ctx)
	}
	if hot, can := s.hot.store.(storage.Checker); can {
		_ = s.hot.call(ctx, s.hot.timeout, hot.Check) // call logs the error
	}
	return err
}

var _ storage.Examiner = (*Store)(nil)

// Examine implements [storage.Examiner]. It returns the findings of the durable tier and
// then those of the hot tier, with the tier's name before each check. The hot tier may lose
// its records, so no finding asks it to keep them.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	hot := examination.Nested(ctx, hotName, s.hot.store)
	for i, f := range hot {
		isRole := f.Check == hotName+": replication" && f.Grade == storage.Mend // a replica, or one that is missing
		if slices.Contains(ofKeeping, f.Check) && (f.Grade == storage.Look || f.Grade == storage.Mend) && !isRole {
			hot[i] = examination.Good(f.Check, f.Seen+"; the durable tier keeps the records")
		}
	}
	return append(examination.Nested(ctx, "durable tier", s.durable), hot...)
}

const hotName = "hot tier"

// ofKeeping are the checks of a store that must not lose a record.
var ofKeeping = []string{hotName + ": eviction policy", hotName + ": persistence", hotName + ": replication"}
