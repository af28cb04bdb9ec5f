package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

// What tests need beside the package's own surface.
const (
	AcquireRounds = acquireRounds
	KeysPerPage   = keysPerPage
	MaximumTries  = maximumTries
)

// SweepStatement is what Sweep sends.
func (s *Store) SweepStatement() string { return s.statements.sweep }

// AcquireIn is Acquire within a transaction, in which can be seen what it does.
func (s *Store) AcquireIn(ctx context.Context, tx pgx.Tx, c storage.Claim) (storage.Lease, *storage.Record, error) {
	return s.acquire(ctx, tx, c)
}

// MigrateTo migrates with other migrations than the package's own.
func (s *Store) MigrateTo(ctx context.Context, migrations []Migration) error {
	return s.migrate(ctx, migrations)
}
