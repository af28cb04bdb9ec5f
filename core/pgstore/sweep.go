package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
)

// sweepBatch is how many records RunSweeper removes in one transaction: few, so that
// no transaction takes long.
const sweepBatch = 1000

// Sweep removes the records that expired before the last full hour, and returns their
// number. Of the records that are remembered longer, it removes the response and
// leaves a tombstone (see storage.Expired). These count when their tombstone is
// removed.
//
// It works in batches of at most batch records, of either kind, until none are left.
// Each batch is one statement and one transaction. Sweep skips records that a claim or
// another sweeper has locked. After an error, ctx's included, the number counts the
// records removed before.
//
// Sweep returns an error for a batch below 1.
func (s *Store) Sweep(ctx context.Context, batch int) (removed int64, err error) {
	if batch < 1 {
		return 0, fmt.Errorf("pgstore: sweep in batches of %d: want at least 1", batch)
	}
	for {
		var swept, shrunk int64
		err := s.retry(ctx, func() error {
			return s.unprepared(s.pool).QueryRow(ctx, s.statements.sweep, batch).Scan(&swept, &shrunk)
		})
		removed += swept
		if err != nil {
			return removed, fmt.Errorf("pgstore: sweep: %w", s.explained(err))
		}
		if max(swept, shrunk) < int64(batch) {
			return removed, nil
		}
	}
}

// RunSweeper sweeps until ctx ends, and then returns. Run it in its own goroutine, in
// every instance:
//
//	go store.RunSweeper(ctx, 10*time.Minute)
//
// Each pause is random, from half of every to one and a half times every, so that
// instances that start together do not sweep together. The first sweep comes after
// such a pause. A failed sweep is logged, and the next sweep tries again. RunSweeper
// panics when every is not positive.
func (s *Store) RunSweeper(ctx context.Context, every time.Duration) {
	records.SweepEvery(ctx, "pgstore", every, s.log, func(ctx context.Context) (int64, error) { return s.Sweep(ctx, sweepBatch) })
}
