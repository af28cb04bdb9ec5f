package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
)

const (
	// sweepBatch is how many records RunSweeper removes in one transaction: few, so
	// that no transaction takes long.
	sweepBatch = 500
	// maximumBatch is bounded by the number of parameters that a statement can have.
	maximumBatch = 10_000
)

// Sweep removes the records that expired before the last full hour, and returns their
// number. Of the records that are remembered longer, it removes the response and
// leaves a tombstone (see storage.Expired). These count when their tombstone is
// removed.
//
// It works in batches of at most batch records, until none are left. Each batch is a
// SELECT of keys, a DELETE and an UPDATE. A record that is claimed in between stays.
// After an error, ctx's included, the number counts the records removed before.
//
// Sweep returns an error for a batch that is not from 1 to 10,000.
func (s *Store) Sweep(ctx context.Context, batch int) (removed int64, err error) {
	if batch < 1 || batch > maximumBatch {
		return 0, fmt.Errorf("sqlstore: sweep in batches of %d: want from 1 to %d", batch, maximumBatch)
	}
	for {
		var found int
		var swept int64
		err := s.retry(ctx, func() (err error) {
			found, swept, err = s.sweep(ctx, batch)
			return err
		})
		removed += swept
		if err != nil {
			return removed, fmt.Errorf("sqlstore: sweep: %w", s.explained(err))
		}
		if found < batch {
			return removed, nil
		}
	}
}

// sweep returns how many rows were found, and how many of them were removed.
func (s *Store) sweep(ctx context.Context, batch int) (found int, removed int64, err error) {
	keys, err := s.overdue(ctx, batch)
	if err != nil || len(keys) == 0 {
		return 0, 0, err
	}
	if removed, err = s.each(ctx, removeStatement, keys); err != nil || removed == int64(len(keys)) {
		return len(keys), removed, err
	}
	_, err = s.each(ctx, shrinkStatement, keys)
	return len(keys), removed, err
}

// overdue returns the keys of up to limit rows for the sweeper.
func (s *Store) overdue(ctx context.Context, limit int) ([]any, error) {
	return ask(ctx, s, func() (keys []any, err error) {
		rows, err := s.query(ctx, nil, &s.statements.overdue, &arguments{pLimit: int64(limit)})
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var key string
			if err := rows.Scan(&key); err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
		return keys, rows.Err()
	})
}

// each runs a statement for a list of keys, and returns how many rows it has changed.
func (s *Store) each(ctx context.Context, text string, keys []any) (int64, error) {
	const here = "{keys}"
	text, order := s.dialect.compile(text, s.table)
	values := (&arguments{}).list(order)
	var places strings.Builder
	for i := range keys {
		if i > 0 {
			places.WriteString(", ")
		}
		if s.dialect.numbered {
			fmt.Fprintf(&places, "$%d", len(values)+i+1)
		} else {
			places.WriteByte('?')
		}
	}
	return inTurn(ctx, s, func() (int64, error) {
		return affected(s.db.ExecContext(ctx, strings.Replace(text, here, places.String(), 1), append(values, keys...)...))
	})
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
	records.SweepEvery(ctx, "sqlstore", every, s.log, func(ctx context.Context) (int64, error) { return s.Sweep(ctx, sweepBatch) })
}
