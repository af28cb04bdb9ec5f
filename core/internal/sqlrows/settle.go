package sqlrows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Complete implements [storage.Store].
func (s *Records) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	return s.CompleteBy(ctx, l, res, func(_ *Arguments, alone func() error) error { return alone() })
}

// CompleteBy is Complete, by another way to try it with the statement's arguments, which may use
// the one of Complete.
func (s *Records) CompleteBy(
	ctx context.Context, l storage.Lease, res storage.Result, try func(a *Arguments, alone func() error) error,
) error {
	a := finishing(&l, &res)
	alone := func() error {
		err := s.update(ctx, s.Pool, Complete, &l, a)
		if errors.Is(err, errFinished) {
			return nil // an earlier call was carried out, and its reply was lost
		}
		return err
	}
	return s.settle(ctx, "complete", &l, func() error { return try(a, alone) })
}

// CompleteIn writes a result in a handler's transaction, before its COMMIT.
func (s *Records) CompleteIn(ctx context.Context, on Executor, l *storage.Lease, res *storage.Result) error {
	err := s.update(ctx, on, Complete, l, finishing(l, res))
	if err == nil {
		err = ctx.Err() // send no COMMIT after the deadline: its reply would be lost
	}
	return err
}

// errFinished says that the lease's own attempt has finished the record already.
var errFinished = fmt.Errorf("%w: the result is stored already", storage.ErrLeaseLost)

// finishing are the arguments of Complete. They share the memory of the result.
func finishing(l *storage.Lease, res *storage.Result) *Arguments {
	a := of(l)
	a.result(res)
	return a
}

// Release implements [storage.Store].
func (s *Records) Release(ctx context.Context, l storage.Lease) error {
	return s.settle(ctx, "release", &l, func() error {
		a, release := of(&l), ReleaseFirst
		switch {
		case l.Steps != "":
			a[pState] = released
			a.keeps(l.Retain, 0)
			a.steps(&l)
			return s.update(ctx, s.Pool, ReleaseSteps, &l, a)
		case l.Attempt > 1:
			a.keeps(l.Retain, 0)
			a[pFingerprint], release = []byte{}, ReleaseLater
		}
		if done, err := s.Pool.Exec(ctx, release, a); err != nil || done {
			return err
		}
		r, err := s.Pool.Find(ctx, Head, a)
		// A running row of the lease is of a claim that arrived after the release,
		// because its call was cut off.
		if err == nil && r != nil && !r.expired() && !(r.isOf(&l) && r.isUnsettled()) {
			err = storage.ErrLeaseLost
		}
		return err
	})
}

// Extend implements [storage.Store].
func (s *Records) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return s.settle(ctx, "extend", &l, func() error {
		a := of(&l)
		a.running(ttl)
		a.keeps(l.Retain, l.Remember)
		a.steps(&l)
		return s.update(ctx, s.Pool, Extend, &l, a)
	})
}

// update changes the row of a lease without an outcome. Nearly always the claim is unchanged.
// Otherwise update writes a whole row.
func (s *Records) update(ctx context.Context, on Executor, change Name, l *storage.Lease, a *Arguments) error {
	if done, err := on.Exec(ctx, change, a); err != nil || done {
		return err
	}
	return s.restore(ctx, on, l, a)
}

// restore writes a whole row for a lease whose claim is gone or has changed. It returns
// storage.ErrLeaseLost when the lease is lost, and errFinished when its attempt has finished.
func (s *Records) restore(ctx context.Context, on Executor, l *storage.Lease, a *Arguments) error {
	a.request(&l.Claim)
	a[pTookOver] = number(l.TookOver)
	head := headIn(on, s.Pool)
	for range rounds {
		r, err := on.Find(ctx, head, a)
		if err != nil {
			return err
		}
		own, gone := r != nil && r.isOf(l), r == nil || r.expired()
		if !own && !gone {
			return storage.ErrLeaseLost
		}
		if !gone && !r.isUnsettled() {
			return errFinished
		}
		// The time of a claim stays, where the row has it. Of a lost claim only its age
		// is known.
		a[pAge], a[pKeepClaimed] = microseconds(l.Age), number(own)
		a[pKeepSteps] = number(!gone && a[pState] == inProgress)
		if written, err := s.write(ctx, on, Insert, r, a); err != nil || written {
			return err
		}
	}
	return errNoRound
}

// headIn is the statement that reads the head of a row for a decision.
func headIn(on, pool Executor) Name {
	if on != pool {
		return Lock
	}
	return Head
}

// settle retries a call where a retry is safe, and adds the operation and the key to
// its error.
func (s *Records) settle(ctx context.Context, operation string, l *storage.Lease, call func() error) error {
	err := s.Retry(ctx, call)
	if errors.Is(err, storage.ErrLeaseLost) {
		return storage.ErrLeaseLost
	}
	return s.Failure(operation, l.Key, err)
}
