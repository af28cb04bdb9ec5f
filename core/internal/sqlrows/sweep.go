package sqlrows

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
)

const (
	// SweepBatch is how many records RunSweeper removes in one transaction: few, so
	// that no transaction takes long.
	SweepBatch = 500
	// maximumBatch is bounded by the number of parameters that a statement can have.
	maximumBatch = 10_000
	// batchTimeout ends a batch whose server no longer responds. RunSweeper's context has no
	// deadline, and without one its process would never sweep again.
	batchTimeout = 5 * time.Minute
)

// Sweep removes the records that expired before the last full hour, and returns their
// number. Of the records that are remembered longer, it removes the response and
// leaves a tombstone (see storage.Expired). These count when their tombstone is
// removed.
//
// It works in batches of at most batch records, until none are left. Each batch is a
// SELECT of keys, a DELETE and an UPDATE. A record that is claimed in between stays.
// After an error, ctx's included, the number counts the records removed before. A batch may
// take five minutes.
//
// Sweep returns an error for a batch that is not from 1 to 10,000.
func (s *Records) Sweep(ctx context.Context, batch int) (removed int64, err error) {
	if batch < 1 || batch > maximumBatch {
		return 0, fmt.Errorf("%s: sweep in batches of %d: want from 1 to %d", s.Package, batch, maximumBatch)
	}
	for {
		var more bool
		var swept int64
		limited, cancel := context.WithTimeout(ctx, batchTimeout)
		err := s.Retry(limited, func() (err error) {
			more, swept, err = s.sweep(limited, batch)
			return err
		})
		cancel()
		removed += swept
		if s.Swept != nil {
			s.Swept.Add(swept)
		}
		if err != nil {
			return removed, fmt.Errorf("%s: sweep: %w", s.Package, s.Explained(err))
		}
		if !more {
			return removed, nil
		}
	}
}

// sweep returns how many rows were removed, and whether there may be more. Rows that others
// have locked stay for a later sweep.
func (s *Records) sweep(ctx context.Context, batch int) (more bool, removed int64, err error) {
	keys, err := s.Overdue(ctx, batch)
	if err != nil || len(keys) == 0 {
		return false, 0, err
	}
	more = len(keys) == batch
	if removed, err = s.each(ctx, removeStatement, keys); err != nil || removed == int64(len(keys)) {
		return more, removed, err
	}
	shrunk, err := s.each(ctx, shrinkStatement, keys)
	return more && removed+shrunk > 0, removed, err
}

// Overdue returns the keys of up to limit rows for the sweeper.
func (s *Records) Overdue(ctx context.Context, limit int) (keys []any, err error) {
	err = s.Pool.Each(ctx, Overdue, &Arguments{pLimit: int64(limit)}, func(r *Row, _ error) bool {
		keys = append(keys, r.key)
		return true
	})
	return keys, err
}

// each runs a statement for a list of keys, and returns how many rows it has changed.
func (s *Records) each(ctx context.Context, text string, keys []any) (int64, error) {
	listed := `record_key IN ({keys})`
	if s.Form.SkipsLocked {
		listed = `record_key = ANY (ARRAY(SELECT record_key FROM {table} WHERE record_key IN ({keys}) FOR UPDATE SKIP LOCKED))`
	}
	statement := s.Form.statement(strings.Replace(text, "{listed}", listed, 1), s.Table)
	values := statement.Values(&Arguments{})
	var places strings.Builder
	for i := range keys {
		if i > 0 {
			places.WriteString(", ")
		}
		if s.Form.Numbered {
			fmt.Fprintf(&places, "$%d", len(values)+i+1)
		} else {
			places.WriteByte('?')
		}
	}
	return s.Pool.Change(ctx, strings.Replace(statement.Text, "{keys}", places.String(), 1), append(values, keys...))
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
func (s *Records) RunSweeper(ctx context.Context, every time.Duration) {
	records.SweepEvery(ctx, s.Package, every, s.log, func(ctx context.Context) (int64, error) { return s.Sweep(ctx, SweepBatch) })
}
