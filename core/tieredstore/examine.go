package tieredstore

import (
	"context"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Examiner = (*Store)(nil)

// Examine implements [storage.Examiner]. It returns the findings of the durable tier and
// then those of the hot tier, with the tier's name before each check.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	return append(examination.Nested(ctx, "durable tier", s.durable), examination.Nested(ctx, "hot tier", s.hot.store)...)
}
