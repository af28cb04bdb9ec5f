package pgstore

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

func (s *Store) newRecords(form *sqlrows.Form) *sqlrows.Records {
	return &sqlrows.Records{
		Package: "pgstore", Pool: runner{Store: s}, Form: form, Table: s.table, Proof: &s.proof, Seen: sqlrows.NewSeen(),
		Swept: s.swept, Logger: s.logger, Again: notApplied, Barred: isBarred, Explained: s.explained,
	}
}

// Acquire implements [storage.Store]. For a row that is not a valid record it returns
// a wrapped storage.ErrCorruptRecord that names the fault.
func (s *Store) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	return s.records.AcquireBy(ctx, request, s.claim)
}

// claimed is the result of Acquire.
type claimed struct {
	lease storage.Lease
	found *storage.Record
}

// claim claims a key in a batch, or alone.
func (s *Store) claim(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	if s.withoutBatches {
		return s.records.Claim(ctx, c)
	}
	won, err := s.claims.Do(ctx, c, 0, func() (claimed, error) {
		lease, found, err := s.records.Claim(ctx, c)
		return claimed{lease, found}, err
	})
	return won.lease, won.found, err
}

// completion has the arguments for the result of a key. They share no memory with the caller's,
// who may leave.
type completion struct {
	key       string
	arguments *sqlrows.Arguments
}

// Complete implements [storage.Store].
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if s.withoutBatches || len(res.Body) > sqlrows.LongestBody {
		return s.records.Complete(ctx, l, res)
	}
	return s.records.CompleteBy(ctx, l, res, func(a *sqlrows.Arguments, alone func() error) error {
		_, err := s.completions.Do(ctx, completion{l.Key, a.Clone()}, len(res.Body), func() (struct{}, error) {
			return struct{}{}, alone()
		})
		return err
	})
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	s.proof.WaitForFirst(ctx) // the engine releases a key after Acquire ran out of time
	return s.records.Release(ctx, l)
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return s.records.Extend(ctx, l, ttl)
}

// Sweep removes the records that expired before the last full hour, and returns their
// number, also after an error. Of the records that are remembered longer, it removes the
// response and leaves a tombstone (see storage.Expired), which counts once it is removed.
//
// It works in batches of at most batch records, from 1 to 10,000, until none are left. Each
// batch is a SELECT of keys, a DELETE and an UPDATE, which skip records that a claim or
// another sweeper has locked.
func (s *Store) Sweep(ctx context.Context, batch int) (removed int64, err error) {
	return s.records.Sweep(ctx, batch)
}

// RunSweeper sweeps until ctx ends, and then returns. Run it in its own goroutine, in
// every instance. Each pause is random, from half of every to one and a half times every, so
// that instances that start together do not sweep together. The first sweep comes after
// such a pause. A failed sweep is logged, and the next sweep tries again. RunSweeper
// panics when every is below a millisecond.
func (s *Store) RunSweeper(ctx context.Context, every time.Duration) {
	s.records.RunSweeper(ctx, every)
}
