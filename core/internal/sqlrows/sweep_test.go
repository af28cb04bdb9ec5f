package sqlrows

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// silent is a server that no longer responds.
type silent struct{ Pool }

func (silent) Each(ctx context.Context, _ Name, _ *Arguments, _ func(*Row, error) bool) error {
	<-ctx.Done()
	return ctx.Err()
}

// A sweeper's context has no deadline. It goes on after a connection that went silent.
func TestSweepEndsWithoutItsServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Records{
			Package: "store", Pool: silent{}, Again: func(error) bool { return false }, Explained: func(err error) error { return err },
		}
		if _, err := s.Sweep(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sweep returned %v, want %v", err, context.DeadlineExceeded)
		}
	})
}
