package tieredstore

import (
	"context"

	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Checker = (*Store)(nil)

// Check implements [storage.Checker]. It returns the result of the durable tier's
// check. A failed check of the hot tier is only logged, because requests are served
// without the hot tier. When the durable tier is no Checker, Check returns an error
// that is [errors.ErrUnsupported].
func (s *Store) Check(ctx context.Context) error {
	durable, can := s.durable.(storage.Checker)
	if !can {
		return unsupported("check", "durable", s.durable)
	}
	err := durable.Check(ctx)
	if hot, can := s.hot.store.(storage.Checker); can {
		_ = s.hot.call(ctx, s.hot.timeout, hot.Check) // call logs the error
	}
	return err
}
