package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core"
)

const (
	// acquireRounds bounds how often Acquire looks at a key that changes under its
	// eyes (case 2).
	acquireRounds = 5
	// momentary is the lease of a holder who cannot be caught: some, so that nobody
	// takes it for abandoned.
	momentary = time.Millisecond
)

// errFaster: somebody else was. Look who.
var errFaster = errors.New("another caller was faster")

// Acquire implements [core.Store]. A row that is no record is a wrapped
// core.ErrCorruptRecord that says what is wrong.
func (s *Store) Acquire(ctx context.Context, c core.Claim) (lease core.Lease, found *core.Record, err error) {
	err = s.retry(ctx, func() error {
		if err := s.ready(ctx); err != nil {
			return err
		}
		won, err := onConnection(ctx, s, func(ctx context.Context, db querier) (claimed, error) {
			lease, found, err := s.acquire(ctx, db, c)
			return claimed{lease, found}, err
		})
		lease, found = won.lease, won.found
		return err
	})
	if err != nil {
		return core.Lease{}, nil, s.failure("acquire", c.Key, err)
	}
	return lease, found, nil
}

// claimed is what Acquire returns.
type claimed struct {
	lease core.Lease
	found *core.Record
}

func (s *Store) acquire(ctx context.Context, db querier, c core.Claim) (core.Lease, *core.Record, error) {
	for range acquireRounds {
		var a acquired
		if err := db.QueryRow(ctx, s.statements.acquire,
			c.Key, uuid(c.Token), c.Fingerprint, interval(c.TTL), interval(c.Retain), c.TakeOver, s.asynchronousClaims,
			digest(c.Digest)).Scan(&a); err != nil {
			return core.Lease{}, nil, err
		}
		lease, found, err := a.leaseOrRecord(c)
		if !errors.Is(err, errFaster) {
			return lease, found, err
		}
	}
	// The key changed each time, in the hands of holders who come and go.
	return core.Lease{}, &core.Record{State: core.InProgress, Fingerprint: c.Fingerprint, Digest: c.Digest, Attempt: 1, LeaseLeft: momentary}, nil
}

// acquired is what acquireStatement returns.
type acquired struct {
	storedRecord
	won *int64 // the attempt, 0, or nil; less than 0: it was taken over
}

// ScanRow implements pgx.RowScanner.
func (a *acquired) ScanRow(rows pgx.Rows) error {
	row := newRawRow(rows)
	a.read(row)
	a.won = row.optional()
	return row.end()
}

// leaseOrRecord is what the row says to the claim.
func (a *acquired) leaseOrRecord(c core.Claim) (core.Lease, *core.Record, error) {
	switch {
	case a.won == nil:
		found, err := a.decode()
		return core.Lease{}, found, err
	case *a.won == 0:
		return core.Lease{}, nil, errFaster
	case *a.won < 0:
		return core.Lease{Claim: c, Attempt: uint64(-*a.won), TookOver: true}, nil, nil
	default:
		return core.Lease{Claim: c, Attempt: uint64(*a.won)}, nil, nil
	}
}
