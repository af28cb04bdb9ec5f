package tieredstore

import (
	"context"

	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Checker = (*Store)(nil)

// Check implements [storage.Checker] with the durable tier's response. A hot tier that
// fails its own check is logged, and is no error: requests are served without it.
// When the durable tier is no Checker, Check returns an error that is
// [errors.ErrUnsupported].
func (s *Store) Check(ctx context.Context) error {
	durable, can := s.durable.(storage.Checker)
	if !can {
		return unsupported("check", "durable", s.durable)
	}
	err := durable.Check(ctx)
	if hot, can := s.hot.store.(storage.Checker); can {
		_ = s.hot.call(ctx, s.hot.timeout, hot.Check) // which logs its error
	}
	return err
}
