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
	s.claims.always, s.completions.always = true, true
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
	flights, more := s.claims.hold(), s.completions.hold()
	return func() {
		for s.Waiting() < calls {
			<-time.After(time.Millisecond)
		}
		s.claims.land(flights)
		s.completions.land(more)
	}
}

// Waiting is how many calls wait.
func (s *Store) Waiting() int { return s.claims.waits() + s.completions.waits() }

// ClaimsWrote reports whether the last statement of claims was a batch that has written.
func (s *Store) ClaimsWrote() bool {
	s.claims.mutex.Lock()
	defer s.claims.mutex.Unlock()
	return s.claims.wrote
}

func (l *lane[Q, R]) hold() uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.overdue = time.AfterFunc(time.Hour, func() {}) // never, however slow the test
	l.statements = 1
	return l.takeOff()
}

func (l *lane[Q, R]) waits() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.waiting)
}
