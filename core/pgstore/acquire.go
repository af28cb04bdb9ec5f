package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
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

// Acquire implements [storage.Store]. A row that is no record is a wrapped
// storage.ErrCorruptRecord that says what is wrong.
func (s *Store) Acquire(ctx context.Context, c storage.Claim) (lease storage.Lease, found *storage.Record, err error) {
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
		return storage.Lease{}, nil, s.failure("acquire", c.Key, err)
	}
	return lease, found, nil
}

// claimed is what Acquire returns.
type claimed struct {
	lease storage.Lease
	found *storage.Record
}

func (s *Store) acquire(ctx context.Context, db querier, c storage.Claim) (storage.Lease, *storage.Record, error) {
	for range acquireRounds {
		var a acquired
		if err := db.QueryRow(ctx, s.statements.acquire,
			c.Key, uuid(c.Token), c.Fingerprint, interval(c.TTL), interval(c.Retain), c.TakeOver, s.asynchronousClaims,
			digest(c.Digest)).Scan(&a); err != nil {
			return storage.Lease{}, nil, err
		}
		lease, found, err := a.leaseOrRecord(c)
		if !errors.Is(err, errFaster) {
			return lease, found, err
		}
	}
	// The key changed each time, in the hands of holders who come and go.
	return storage.Lease{}, &storage.Record{State: storage.InProgress, Fingerprint: c.Fingerprint, Digest: c.Digest, Attempt: 1, LeaseLeft: momentary}, nil
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
func (a *acquired) leaseOrRecord(c storage.Claim) (storage.Lease, *storage.Record, error) {
	switch {
	case a.won == nil:
		found, err := a.decode()
		return storage.Lease{}, found, err
	case *a.won == 0:
		return storage.Lease{}, nil, errFaster
	case *a.won < 0:
		return storage.Lease{Claim: c, Attempt: uint64(-*a.won), TookOver: true}, nil, nil
	default:
		return storage.Lease{Claim: c, Attempt: uint64(*a.won)}, nil, nil
	}
}
