package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

// Names that tests need beside the package's exported ones.
const (
	AcquireRounds = acquireRounds
	MaxWindow     = maxWindow
	MaximumTries  = maximumTries
)

// SweepStatement is the statement of Sweep.
func (s *Store) SweepStatement() string { return s.statements.sweep }

// AcquireIn is Acquire within a transaction, in which the test can see its effects.
func (s *Store) AcquireIn(ctx context.Context, tx pgx.Tx, c storage.Claim) (storage.Lease, *storage.Record, error) {
	return s.acquire(ctx, tx, c)
}

// MigrateTo migrates with other migrations than the package's own.
func (s *Store) MigrateTo(ctx context.Context, migrations []Migration) error {
	return s.migrate(ctx, migrations)
}
