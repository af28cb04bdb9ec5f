package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// acquireRounds bounds how often Acquire reads a key that other clients keep
	// changing (case 2).
	acquireRounds = 5
	// briefLease is the lease time reported for a key that changed in every round. It
	// is above zero so that callers do not treat the key as abandoned.
	briefLease = time.Millisecond
)

// errFaster: another caller won the key. Read the key again.
var errFaster = errors.New("another caller was faster")

// Acquire implements [storage.Store]. For a row that is not a valid record it returns
// a wrapped storage.ErrCorruptRecord that names the fault.
func (s *Store) Acquire(ctx context.Context, request storage.Request) (lease storage.Lease, found *storage.Record, err error) {
	c := request.Claim()
	err = s.retry(ctx, func() error {
		if err := s.ready(ctx); err != nil {
			return err
		}
		alone := func() (claimed, error) {
			return onConnection(ctx, s, func(ctx context.Context, db querier) (claimed, error) {
				lease, found, err := s.acquire(ctx, db, c)
				return claimed{lease, found}, err
			})
		}
		send := alone
		if !s.withoutBatches {
			send = func() (claimed, error) { return s.claims.do(ctx, c, 0, alone) }
		}
		won, err := send()
		lease, found = won.lease, won.found
		return err
	})
	if err != nil {
		return storage.Lease{}, nil, s.failure("acquire", c.Key, unlessRefused(err))
	}
	return lease, found, nil
}

// claimed is the result of Acquire.
type claimed struct {
	lease storage.Lease
	found *storage.Record
}

func (s *Store) acquire(ctx context.Context, db querier, c storage.Claim) (storage.Lease, *storage.Record, error) {
	for range acquireRounds {
		var a acquired
		if err := db.QueryRow(ctx, s.statements.acquire,
			c.Key, uuid(c.Token), c.Fingerprint, kept(c.Retain, c.Remember), retained(c.Retain, c.Remember), c.TakeOver, s.asynchronousClaims,
			digest(c.Digest), interval(c.TTL), origin(c.Origin)).Scan(&a); err != nil {
			return storage.Lease{}, nil, err
		}
		lease, found, err := a.leaseOrRecord(c)
		if !errors.Is(err, errFaster) {
			return lease, found, err
		}
	}
	// Other callers changed the key in every round.
	return storage.Lease{}, &storage.Record{State: storage.InProgress, Fingerprint: c.Fingerprint, Digest: c.Digest, Attempt: 1, LeaseLeft: briefLease}, nil
}

// acquired is the row that acquireStatement returns.
type acquired struct {
	storedRecord
	won   *int64 // the new attempt, 0, or nil; negative after a take-over
	steps string // of the attempt that was won
}

// ScanRow implements pgx.RowScanner.
func (a *acquired) ScanRow(rows pgx.Rows) error {
	row := newRawRow(rows)
	a.read(row)
	a.won, a.steps = row.won()
	return row.end()
}

// leaseOrRecord converts the row to a lease for the claim, or to a record.
func (a *acquired) leaseOrRecord(c storage.Claim) (storage.Lease, *storage.Record, error) {
	switch {
	case a.won == nil:
		found, err := a.decode()
		return storage.Lease{}, found, err
	case *a.won == 0:
		return storage.Lease{}, nil, errFaster
	case *a.won < 0:
		return storage.Lease{Claim: c, Attempt: uint64(-*a.won), TookOver: true, Steps: a.steps}, nil, nil
	default:
		return storage.Lease{Claim: c, Attempt: uint64(*a.won), Steps: a.steps}, nil, nil
	}
}
