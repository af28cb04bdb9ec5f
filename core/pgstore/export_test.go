package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// MaximumTries is a name that tests need beside the package's exported ones.
const MaximumTries = sqlrows.MaximumTries

// AcquireIn is Acquire within a transaction, in which the test can see its effects.
func (s *Store) AcquireIn(ctx context.Context, tx pgx.Tx, c storage.Claim) (storage.Lease, *storage.Record, error) {
	within := *s.records
	within.Pool, within.Seen = runner{s, tx}, sqlrows.NewSeen()
	return within.Claim(ctx, c)
}

// AlwaysBatch lets single calls be batches too.
func (s *Store) AlwaysBatch() *Store {
	s.claims.Always, s.completions.Always = true, true
	return s
}

// NeverBatch is WithoutBatches.
func (s *Store) NeverBatch() *Store {
	s.withoutBatches = true
	return s
}

// HoldLanes lets calls wait as if statements were in flight, until all so many calls
// wait. They are then one batch, as far as its bounds allow.
func (s *Store) HoldLanes(calls int) (release func()) {
	claims, completions := s.claims.Hold(), s.completions.Hold()
	return func() {
		for s.Waiting() < calls {
			<-time.After(time.Millisecond)
		}
		claims()
		completions()
	}
}

// Waiting is how many calls wait.
func (s *Store) Waiting() int { return s.claims.Waiting() + s.completions.Waiting() }

// ClaimsWrote reports whether the last statement of claims was a batch that has written.
func (s *Store) ClaimsWrote() bool { return s.claims.Wrote() }
