package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core"
)

// Complete implements [core.Store].
func (s *Store) Complete(ctx context.Context, l core.Lease, res core.Result) error {
	return s.settle(ctx, "complete", l, func() error {
		completed, err := s.complete(ctx, s.pool, l, res)
		if err != nil || completed {
			return err
		}
		found, err := s.holder(ctx, l)
		if err == nil && !found.finished {
			err = core.ErrLeaseLost
		}
		return err
	})
}

// complete writes the result, unless the lease is lost or the result is there
// already.
func (s *Store) complete(ctx context.Context, db querier, l core.Lease, res core.Result) (bool, error) {
	var header, body []byte
	if res.State != core.Unreplayable {
		header, body = encodeHeader(res.Header), res.Body
	}
	arguments := []any{
		l.Key, uuid(l.Token), res.State.String(), interval(res.Retain), int16(res.Status), nullable(header), body, res.Sketch, int64(l.Attempt),
	}
	tag, err := db.Exec(ctx, s.statements.complete, arguments...)
	if err == nil && tag.RowsAffected() == 0 {
		tag, err = db.Exec(ctx, s.statements.restore, append(arguments, l.TookOver, l.Fingerprint)...)
	}
	return tag.RowsAffected() > 0, err
}

// Release implements [core.Store].
func (s *Store) Release(ctx context.Context, l core.Lease) error {
	return s.settle(ctx, "release", l, func() error {
		statement, arguments := s.statements.releaseFirst, []any{l.Key, uuid(l.Token), int64(l.Attempt)}
		if l.Attempt > 1 {
			statement, arguments = s.statements.releaseLater, append(arguments, interval(l.Retain))
		}
		tag, err := s.pool.Exec(ctx, statement, arguments...)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		found, err := s.holder(ctx, l)
		// A claim of its own that is there now came after the release: it had been
		// cut off, and was late.
		if err == nil && found.there && !found.running {
			err = core.ErrLeaseLost
		}
		return err
	})
}

// Extend implements [core.Store].
func (s *Store) Extend(ctx context.Context, l core.Lease, ttl time.Duration) error {
	return s.settle(ctx, "extend", l, func() error {
		tag, err := s.pool.Exec(ctx, s.statements.extend,
			l.Key, uuid(l.Token), int64(l.Attempt), l.TookOver, l.Fingerprint, interval(ttl), interval(l.Retain))
		if err == nil && tag.RowsAffected() == 0 {
			err = core.ErrLeaseLost
		}
		return err
	})
}

// settle retries what can be retried, and says of an error where it comes from.
func (s *Store) settle(ctx context.Context, operation string, l core.Lease, call func() error) error {
	err := s.retry(ctx, call)
	if errors.Is(err, core.ErrLeaseLost) {
		return core.ErrLeaseLost
	}
	return s.failure(operation, l.Key, err)
}

// held is what stands in the way of a settlement: whether there is a record,
// whether the lease's own token has finished it, and whether it is that lease's.
type held struct{ there, finished, running bool }

// holder looks why a settlement has changed nothing.
func (s *Store) holder(ctx context.Context, l core.Lease) (found held, err error) {
	err = s.pool.QueryRow(ctx, s.statements.holder, l.Key, uuid(l.Token), int64(l.Attempt)).Scan(&found.finished, &found.running)
	if errors.Is(err, pgx.ErrNoRows) {
		return held{}, nil
	}
	found.there = true
	return found, err
}
