package tieredstore

import (
	"context"

	"github.com/oncekey/oncekey/core"
)

var _ core.Checker = (*Store)(nil)

// Check implements [core.Checker] with the durable tier's response. A hot tier that
// fails its own check is logged, and is no error: requests are served without it.
// When the durable tier is no Checker, Check returns an error that is
// [errors.ErrUnsupported].
func (s *Store) Check(ctx context.Context) error {
	durable, can := s.durable.(core.Checker)
	if !can {
		return unsupported("check", "durable", s.durable)
	}
	err := durable.Check(ctx)
	if hot, can := s.hot.store.(core.Checker); can {
		_ = s.hot.call(ctx, s.hot.timeout, hot.Check) // which logs its error
	}
	return err
}
