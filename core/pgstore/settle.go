package pgstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// Complete implements [storage.Store].
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	c := newCompletion(l, res)
	return s.settle(ctx, "complete", l, func() error {
		alone := func() (struct{}, error) {
			return struct{}{}, s.send(ctx, func(ctx context.Context, db querier) error { return s.completeAlone(ctx, db, c) })
		}
		if s.withoutBatches || len(c.result.Body) > largestBody {
			_, err := alone()
			return err
		}
		_, err := s.completions.do(ctx, c, len(c.result.Body), alone)
		return err
	})
}

// completion is a lease with its result. It shares no memory with the caller, because
// its statement may outlive the call.
type completion struct {
	lease storage.Lease
	// result has no header.
	result         storage.Result
	header         pgtype.Text
	kept, retained pgtype.Interval
}

func newCompletion(l storage.Lease, res storage.Result) *completion {
	c := &completion{lease: l, result: res, kept: kept(res.Retain, res.Remember), retained: retained(res.Retain, res.Remember)}
	c.result.Header, c.result.Body, c.result.Sketch = nil, nil, bytes.Clone(res.Sketch)
	if res.State != storage.Unreplayable {
		c.header, c.result.Body = nullable(records.HeaderJSON(res.Header)), bytes.Clone(res.Body)
	}
	return c
}

// arguments returns the arguments of completeStatement.
func (c *completion) arguments() []any {
	l, res := &c.lease, &c.result
	return []any{
		l.Key, uuid(l.Token), res.State.String(), c.kept, c.retained, int16(res.Status), c.header, res.Body, res.Sketch, int64(l.Attempt),
	}
}

// completeAlone writes the result, or returns storage.ErrLeaseLost.
func (s *Store) completeAlone(ctx context.Context, db querier, c *completion) error {
	completed, err := s.complete(ctx, db, c)
	if err != nil || completed {
		return err
	}
	// Usually an earlier call was carried out and its reply was lost. On a
	// distant server there is only time for this check.
	found, err := s.holder(ctx, db, c.lease)
	if err != nil || found.finished {
		return err
	}
	restored, err := s.restore(ctx, db, c)
	if err != nil || restored {
		return err
	}
	if found, err = s.holder(ctx, db, c.lease); err == nil && !found.finished {
		err = storage.ErrLeaseLost
	}
	return err
}

// complete writes the result, if the claim is unchanged.
func (s *Store) complete(ctx context.Context, db querier, c *completion) (bool, error) {
	tag, err := db.Exec(ctx, s.statements.complete, c.arguments()...)
	return tag.RowsAffected() > 0, err
}

// restore writes the result even if the claim is gone, unless the lease is lost or
// the result exists already.
func (s *Store) restore(ctx context.Context, db querier, c *completion) (bool, error) {
	l := &c.lease
	tag, err := db.Exec(ctx, s.statements.restore, append(c.arguments(),
		l.TookOver, l.Fingerprint, digest(l.Digest), origin(l.Origin), interval(l.Age))...)
	return tag.RowsAffected() > 0, err
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	s.afterPreparation(ctx) // the engine releases a key after Acquire ran out of time
	return s.settle(ctx, "release", l, func() error {
		return s.send(ctx, func(ctx context.Context, db querier) error {
			if l.Steps != "" {
				return change(ctx, db, s.statements.releaseSteps, l.Key, uuid(l.Token), int64(l.Attempt), interval(l.Retain), l.Fingerprint,
					digest(l.Digest), origin(l.Origin), []byte(l.Steps), interval(l.Age))
			}
			statement, arguments := s.statements.releaseFirst, []any{l.Key, uuid(l.Token), int64(l.Attempt)}
			if l.Attempt > 1 {
				statement, arguments = s.statements.releaseLater, append(arguments, interval(l.Retain))
			}
			tag, err := db.Exec(ctx, statement, arguments...)
			if err != nil || tag.RowsAffected() > 0 {
				return err
			}
			found, err := s.holder(ctx, db, l)
			// A claim of the lease's own token arrived after the release. Its Acquire was
			// cut off and reached the server late.
			if err == nil && found.there && !found.running {
				err = storage.ErrLeaseLost
			}
			return err
		})
	})
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return s.settle(ctx, "extend", l, func() error {
		return s.send(ctx, func(ctx context.Context, db querier) error {
			return change(ctx, db, s.statements.extend, extension(l, ttl)...)
		})
	})
}

// change runs a statement that affects no row when the lease is lost.
func change(ctx context.Context, db querier, statement string, arguments ...any) error {
	tag, err := db.Exec(ctx, statement, arguments...)
	if err == nil && tag.RowsAffected() == 0 {
		err = storage.ErrLeaseLost
	}
	return err
}

// extension returns the arguments of extendStatement.
func extension(l storage.Lease, ttl time.Duration) []any {
	return []any{
		l.Key, uuid(l.Token), int64(l.Attempt), kept(l.Retain, l.Remember), retained(l.Retain, l.Remember), l.TookOver, l.Fingerprint, digest(l.Digest),
		origin(l.Origin), interval(ttl), bytesOf(l.Steps), interval(l.Age),
	}
}

// settle retries a call where a retry is safe, and adds the operation and the key to
// its error.
func (s *Store) settle(ctx context.Context, operation string, l storage.Lease, call func() error) error {
	err := s.retry(ctx, call)
	if errors.Is(err, storage.ErrLeaseLost) {
		return storage.ErrLeaseLost
	}
	return s.failure(operation, l.Key, unlessRefused(err))
}

// send runs call on a connection of the pool, see onConnection.
func (s *Store) send(ctx context.Context, call func(ctx context.Context, db querier) error) error {
	_, err := onConnection(ctx, s, func(ctx context.Context, db querier) (struct{}, error) { return struct{}{}, call(ctx, db) })
	return err
}

// held is the record that a settlement found: whether it exists, whether the lease's
// own token has finished it, and whether that lease is still running.
type held struct{ there, finished, running bool }

// holder reads why a settlement has changed no row.
func (s *Store) holder(ctx context.Context, db querier, l storage.Lease) (found held, err error) {
	err = db.QueryRow(ctx, s.statements.holder, l.Key, uuid(l.Token), int64(l.Attempt)).Scan(&found.finished, &found.running)
	if errors.Is(err, pgx.ErrNoRows) {
		return held{}, nil
	}
	found.there = true
	return found, err
}
