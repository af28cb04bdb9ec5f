package pgstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

// Complete implements [storage.Store].
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	// The statement may outlive the call.
	res.Body, res.Sketch = bytes.Clone(res.Body), bytes.Clone(res.Sketch)
	arguments := completion(l, res)
	return s.settle(ctx, "complete", l, func(ctx context.Context, db querier) error {
		completed, err := s.complete(ctx, db, arguments)
		if err != nil || completed {
			return err
		}
		// Usually an earlier call was carried out and its reply was lost. On a
		// distant server there is only time for this check.
		found, err := s.holder(ctx, db, l)
		if err != nil || found.finished {
			return err
		}
		restored, err := s.restore(ctx, db, l, arguments)
		if err != nil || restored {
			return err
		}
		if found, err = s.holder(ctx, db, l); err == nil && !found.finished {
			err = storage.ErrLeaseLost
		}
		return err
	})
}

// completion returns the arguments of completeStatement. They share no memory with
// the header.
func completion(l storage.Lease, res storage.Result) []any {
	var header, body []byte
	if res.State != storage.Unreplayable {
		header, body = encodeHeader(res.Header), res.Body
	}
	return []any{
		l.Key, uuid(l.Token), res.State.String(), kept(res.Retain, res.Remember), retained(res.Retain, res.Remember), int16(res.Status), nullable(header), body,
		res.Sketch, int64(l.Attempt),
	}
}

// complete writes the result, if the claim is unchanged.
func (s *Store) complete(ctx context.Context, db querier, arguments []any) (bool, error) {
	tag, err := db.Exec(ctx, s.statements.complete, arguments...)
	return tag.RowsAffected() > 0, err
}

// restore writes the result even if the claim is gone, unless the lease is lost or
// the result exists already.
func (s *Store) restore(ctx context.Context, db querier, l storage.Lease, arguments []any) (bool, error) {
	tag, err := db.Exec(ctx, s.statements.restore, append(arguments,
		l.TookOver, l.Fingerprint, digest(l.Digest), origin(l.Origin), interval(l.Age))...)
	return tag.RowsAffected() > 0, err
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	s.afterPreparation(ctx) // the engine releases a key after Acquire ran out of time
	return s.settle(ctx, "release", l, func(ctx context.Context, db querier) error {
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
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return s.settle(ctx, "extend", l, func(ctx context.Context, db querier) error {
		tag, err := db.Exec(ctx, s.statements.extend,
			l.Key, uuid(l.Token), int64(l.Attempt), kept(l.Retain, l.Remember), retained(l.Retain, l.Remember), l.TookOver, l.Fingerprint, digest(l.Digest),
			origin(l.Origin), interval(ttl), bytesOf(l.Steps), interval(l.Age))
		if err == nil && tag.RowsAffected() == 0 {
			err = storage.ErrLeaseLost
		}
		return err
	})
}

// settle retries a call where a retry is safe, and adds the operation and the key to
// its error.
func (s *Store) settle(ctx context.Context, operation string, l storage.Lease, call func(ctx context.Context, db querier) error) error {
	err := s.retry(ctx, func() error {
		_, err := onConnection(ctx, s, func(ctx context.Context, db querier) (struct{}, error) {
			return struct{}{}, call(ctx, db)
		})
		return err
	})
	if errors.Is(err, storage.ErrLeaseLost) {
		return storage.ErrLeaseLost
	}
	return s.failure(operation, l.Key, err)
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
