package sqlrows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// rounds bounds how often a call reads a key that other clients keep changing. A caller
	// loses a round only to one that wins it, and a writer of SQLite waits for all before it,
	// so a few rounds are too few.
	rounds = 100
	// briefLease is the lease time reported for a key that changed in every round. It
	// is above zero so that callers do not treat the key as abandoned.
	briefLease = time.Millisecond
)

// Acquire implements [storage.Store]. For a row that is not a valid record it returns
// a wrapped storage.ErrCorruptRecord that names the fault.
//
// It reads the row and decides, or tries an INSERT first (see seen). A claim of a key
// without a row is an INSERT, which the primary key lets one caller do. A claim of any other row is an UPDATE of exactly the
// row that was read. A caller that was too late reads again.
func (s *Records) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	return s.AcquireBy(ctx, request, s.Claim)
}

// AcquireBy is Acquire, by another way to try it than [Records.Claim].
func (s *Records) AcquireBy(
	ctx context.Context, request storage.Request, try func(context.Context, storage.Claim) (storage.Lease, *storage.Record, error),
) (lease storage.Lease, found *storage.Record, err error) {
	c := request.Claim()
	err = s.Retry(ctx, func() error {
		if err = s.Proof.Ready(ctx); err != nil {
			lease, found, err = s.read(ctx, c, err)
			return err
		}
		lease, found, err = try(ctx, c)
		return err
	})
	if err != nil {
		return storage.Lease{}, nil, s.Failure("acquire", c.Key, err)
	}
	return lease, found, nil
}

// Claim is one try of Acquire.
func (s *Records) Claim(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	first := storage.Lease{Claim: c, Attempt: 1}
	var r *Row
	if s.Seen != nil && s.Seen.Add(c.Key) {
		won, row, err := s.claimNew(ctx, claiming(&first))
		switch {
		case err != nil:
			return s.read(ctx, c, err)
		case won:
			return first, nil, nil
		}
		r = row
	}
	held := false
	for range rounds {
		var err error
		if r == nil {
			r, err = s.Pool.Find(ctx, Read, KeyOf(c.Key))
		}
		if err != nil {
			return storage.Lease{}, nil, err
		}
		lease, open := first, true
		if r != nil {
			held = true
			lease, open = r.claim(c)
		}
		if !open {
			found, err := r.Decode()
			return storage.Lease{}, found, err
		}
		if won, err := s.write(ctx, s.Pool, First, r, claiming(&lease)); err != nil || won {
			return lease, nil, err
		}
		r = nil
	}
	found, err := unclaimed(&c, held)
	return storage.Lease{}, found, err
}

// errNoRound is the error of a call whose rounds have all failed.
var errNoRound = errors.New("no round could write the row: other callers changed it, a trigger or a rule of the table drops what is written, or a proxy leads reads to another server")

// unclaimed is the end of a claim whose rounds have all failed: other callers changed the key in
// each, or nobody had a row. That is no outage, so FailOpen runs nothing.
func unclaimed(c *storage.Claim, held bool) (*storage.Record, error) {
	if !held {
		return nil, fmt.Errorf("%w: %w", storage.ErrNotStorable, errNoRound)
	}
	return &storage.Record{State: storage.InProgress, Fingerprint: c.Fingerprint, Digest: c.Digest, Attempt: 1, LeaseLeft: briefLease}, nil
}

// claimNew claims a key that has no row. It may return the row that the key has.
func (s *Records) claimNew(ctx context.Context, a *Arguments) (won bool, r *Row, err error) {
	if !s.Form.FirstReads {
		won, err = s.write(ctx, s.Pool, First, nil, a)
		return won, nil, err
	}
	r, err = s.Pool.Find(ctx, FirstOrRead, a)
	return r != nil && r.IsNew(), r, err
}

// read returns the record of a key that could not be claimed. A database that refuses
// writes, such as a replica, still has its replays. Without such a record read returns
// the error of the claim.
func (s *Records) read(ctx context.Context, c storage.Claim, claimErr error) (storage.Lease, *storage.Record, error) {
	if ctx.Err() != nil || s.Barred(claimErr) {
		return storage.Lease{}, nil, claimErr
	}
	r, err := s.Pool.Find(ctx, Read, KeyOf(c.Key))
	if err != nil || r == nil {
		return storage.Lease{}, nil, claimErr
	}
	if _, open := r.claim(c); open {
		return storage.Lease{}, nil, claimErr
	}
	found, err := r.Decode()
	return storage.Lease{}, found, err
}

// claiming returns the Arguments of a row in progress.
func claiming(l *storage.Lease) *Arguments {
	a := of(l)
	a.running(l.LockTTL)
	a.keeps(l.Retain, l.Remember)
	a.request(&l.Claim)
	a[pTookOver], a[pAge], a[pKeepClaimed], a[pKeepSteps] = number(l.TookOver), int64(0), int64(0), number(l.Steps != "")
	return a
}

// claim returns the lease that a claim gets, or false where the row is not open to it.
func (r *Row) claim(c storage.Claim) (storage.Lease, bool) {
	switch {
	case r.expired():
		return storage.Lease{Claim: c, Attempt: 1}, true
	case r.version != version || r.over() || r.attempt < 1:
		return storage.Lease{}, false
	case r.state == forgotten:
		return storage.Lease{Claim: c, Attempt: uint64(r.attempt) + 1}, true
	case r.state == released:
		return storage.Lease{Claim: c, Attempt: uint64(r.attempt) + 1, Steps: string(r.content)}, r.repeats(&c)
	case r.state == inProgress && r.leaseUntil != 0:
		return r.claimRunning(c)
	default:
		return storage.Lease{}, false
	}
}

// claimRunning is claim for a row in progress. Its steps stay with it.
func (r *Row) claimRunning(c storage.Claim) (storage.Lease, bool) {
	if bytes.Equal(r.token, c.Token[:]) {
		return storage.Lease{Claim: c, Attempt: uint64(r.attempt), TookOver: r.tookOver != 0, Steps: string(r.content)}, true
	}
	if c.TakeOver && r.leaseUntil <= r.now && r.repeats(&c) {
		return storage.Lease{Claim: c, Attempt: uint64(r.attempt) + 1, TookOver: true, Steps: string(r.content)}, true
	}
	return storage.Lease{}, false
}

// write adds a row, or replaces the row that was seen, if any, by a whole one. It returns false
// when another caller was faster.
func (s *Records) write(ctx context.Context, on Executor, insert Name, seen *Row, a *Arguments) (bool, error) {
	if seen == nil {
		added, err := on.Exec(ctx, insert, a)
		if err != nil && s.Duplicate != nil && s.Duplicate(err) {
			return false, nil
		}
		return added, err
	}
	a[pSeenToken], a[pSeenRevision] = seen.token, seen.revision
	return on.Exec(ctx, Replace, a)
}
