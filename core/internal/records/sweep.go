package records

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

// SweepEvery calls sweep, which removes the expired records of a store, until ctx ends, and
// then returns. Each pause is random, from half of every to one and a half times every, so
// that instances that start together do not sweep together. The first sweep comes after
// such a pause. A sweep that fails or panics, such as in a tracer, is logged, and the next
// one tries again (case 39). SweepEvery panics when every is below a millisecond. store is the
// package's name in texts.
func SweepEvery(ctx context.Context, store string, every time.Duration, log func() *slog.Logger, sweep func(context.Context) (int64, error)) {
	if every < time.Millisecond {
		panic(fmt.Sprintf("%s: RunSweeper every %s: want at least 1ms", store, every))
	}
	timer := time.NewTimer(jittered(every))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		var removed int64
		err := panicked.Call(store+"'s sweep", func() (err error) {
			removed, err = sweep(ctx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log().WarnContext(ctx, "oncekey: expired records could not be removed", slog.Any("error", err), slog.Int64("removed", removed))
		case removed > 0:
			log().DebugContext(ctx, "oncekey: expired records removed", slog.Int64("removed", removed))
		}
		timer.Reset(jittered(every))
	}
}

func jittered(every time.Duration) time.Duration {
	return every/2 + rand.N(every)
}
