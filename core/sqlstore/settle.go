package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Complete implements [storage.Store].
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	return s.settle(ctx, "complete", &l, func() error {
		own, err := s.complete(ctx, nil, &l, &res)
		if err == nil && !own {
			err = storage.ErrLeaseLost
		}
		if errors.Is(err, errFinished) {
			return nil // an earlier call was carried out, and its reply was lost
		}
		return err
	})
}

// errFinished: the lease's own attempt has finished the record already.
var errFinished = errors.New("the result is stored already")

// complete writes the result. It returns false when the lease is lost.
func (s *Store) complete(ctx context.Context, tx *sql.Tx, l *storage.Lease, res *storage.Result) (bool, error) {
	a := of(l)
	a.result(res)
	// Nearly always the claim is unchanged.
	if completed, err := s.exec(ctx, tx, &s.statements.complete, a); err != nil || completed {
		return completed, err
	}
	return s.restore(ctx, tx, l, a)
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	return s.settle(ctx, "release", &l, func() error {
		a, release := of(&l), &s.statements.releaseFirst
		switch {
		case l.Steps != "":
			a[pState] = released
			a.keeps(l.Retain, 0)
			a.steps(&l)
			return change(ctx, s, &s.statements.releaseSteps, &l, a)
		case l.Attempt > 1:
			a.keeps(l.Retain, 0)
			a[pFingerprint], release = []byte{}, &s.statements.releaseLater
		}
		if done, err := s.exec(ctx, nil, release, a); err != nil || done {
			return err
		}
		var r row
		there, err := s.find(ctx, nil, &s.statements.head, a, &r, r.head(s.dialect.asText))
		// A running row of the lease is of a claim that arrived after the release,
		// because its call was cut off.
		if err == nil && there && !r.expired() && !(r.isOf(&l) && r.isUnsettled()) {
			err = storage.ErrLeaseLost
		}
		return err
	})
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return s.settle(ctx, "extend", &l, func() error {
		a := of(&l)
		a.running(ttl)
		a.keeps(l.Retain, l.Remember)
		a.steps(&l)
		return change(ctx, s, &s.statements.extend, &l, a)
	})
}

// change changes the row of a lease without an outcome, or writes a whole row if the claim
// is gone or has changed.
func change(ctx context.Context, s *Store, row *statement, l *storage.Lease, a *arguments) error {
	if done, err := s.exec(ctx, nil, row, a); err != nil || done {
		return err
	}
	restored, err := s.restore(ctx, nil, l, a)
	if err == nil && !restored || errors.Is(err, errFinished) {
		err = storage.ErrLeaseLost
	}
	return err
}

// restore writes a whole row for a lease whose claim is gone or has changed. It returns
// false when the lease is lost, and errFinished when its attempt has finished.
func (s *Store) restore(ctx context.Context, tx *sql.Tx, l *storage.Lease, a *arguments) (bool, error) {
	a.request(&l.Claim)
	a[pTookOver] = number(l.TookOver)
	for range rounds {
		var r row
		there, err := s.find(ctx, tx, s.statements.headIn(tx), a, &r, r.head(s.dialect.asText))
		if err != nil {
			return false, err
		}
		own, gone := there && r.isOf(l), !there || r.expired()
		if !own && !gone {
			return false, nil
		}
		if !gone && !r.isUnsettled() {
			return false, errFinished
		}
		// The time of a claim stays, where the row has it. Of a lost claim only its age
		// is known.
		a[pAge], a[pKeepClaimed] = microseconds(l.Age), number(own)
		a[pKeepSteps] = number(!gone && a[pState] == inProgress)
		if written, err := s.write(ctx, tx, &s.statements.insert, &r, there, a); err != nil || written {
			return written, err
		}
	}
	return false, errors.New("other callers changed the key in every round")
}

// settle retries a call where a retry is safe, and adds the operation and the key to
// its error.
func (s *Store) settle(ctx context.Context, operation string, l *storage.Lease, call func() error) error {
	err := s.retry(ctx, call)
	if errors.Is(err, storage.ErrLeaseLost) {
		return storage.ErrLeaseLost
	}
	return s.failure(operation, l.Key, err)
}
