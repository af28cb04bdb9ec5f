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
		// Most often a call before this one was carried out, and its reply was lost. A
		// far server leaves no time for more than this look.
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

// completion are the arguments of completeStatement. None is memory of the header.
func completion(l storage.Lease, res storage.Result) []any {
	var header, body []byte
	if res.State != storage.Unreplayable {
		header, body = encodeHeader(res.Header), res.Body
	}
	return []any{
		l.Key, uuid(l.Token), res.State.String(), interval(res.Retain), int16(res.Status), nullable(header), body, res.Sketch, int64(l.Attempt),
	}
}

// complete writes the result, if the claim is there as it was made.
func (s *Store) complete(ctx context.Context, db querier, arguments []any) (bool, error) {
	tag, err := db.Exec(ctx, s.statements.complete, arguments...)
	return tag.RowsAffected() > 0, err
}

// restore writes the result whatever has become of the claim, unless the lease is
// lost or the result is there already.
func (s *Store) restore(ctx context.Context, db querier, l storage.Lease, arguments []any) (bool, error) {
	tag, err := db.Exec(ctx, s.statements.restore, append(arguments, l.TookOver, l.Fingerprint, digest(l.Digest))...)
	return tag.RowsAffected() > 0, err
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	s.afterPreparation(ctx) // the engine releases keys whose claim was too late
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
		// A claim of its own that is there now came after the release: it had been
		// cut off, and was late.
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
			l.Key, uuid(l.Token), int64(l.Attempt), l.TookOver, l.Fingerprint, interval(ttl), interval(l.Retain), digest(l.Digest))
		if err == nil && tag.RowsAffected() == 0 {
			err = storage.ErrLeaseLost
		}
		return err
	})
}

// settle retries what can be retried, and says of an error where it comes from.
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

// held is what stands in the way of a settlement: whether there is a record,
// whether the lease's own token has finished it, and whether it is that lease's.
type held struct{ there, finished, running bool }

// holder looks why a settlement has changed nothing.
func (s *Store) holder(ctx context.Context, db querier, l storage.Lease) (found held, err error) {
	err = db.QueryRow(ctx, s.statements.holder, l.Key, uuid(l.Token), int64(l.Attempt)).Scan(&found.finished, &found.running)
	if errors.Is(err, pgx.ErrNoRows) {
		return held{}, nil
	}
	found.there = true
	return found, err
}
