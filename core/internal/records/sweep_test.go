package records_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
)

// Case 39: a sweep that panics, such as in the pool's tracer, is a failed sweep. The
// program's goroutine goes on.
func TestPanicOfASweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		log := slog.New(slog.DiscardHandler)
		sweeps := 0
		records.SweepEvery(ctx, "store", time.Minute, func() *slog.Logger { return log }, func(context.Context) (int64, error) {
			sweeps++
			panic("tracer bug")
		})
		if sweeps < 2 {
			t.Errorf("%d sweeps in an hour, want one about each minute", sweeps)
		}
	})
}
