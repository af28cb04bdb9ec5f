package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

// errRerunNotConfirmed refuses a Forget without storage.RerunIsSafe.
var errRerunNotConfirmed = errors.New("pgstore: forget: pass storage.RerunIsSafe if the request may run again")

// Lookup implements [storage.Inspector].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	var r storedRecord
	err := s.unprepared(s.pool).QueryRow(ctx, s.statements.lookUp, key).Scan(&r)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is no record
	}
	if err != nil {
		return nil, s.failure("look up", key, err)
	}
	record, err := r.decode()
	return record, s.failure("look up", key, err)
}

// Forget implements [storage.Inspector]. It also deletes the attempt number.
func (s *Store) Forget(ctx context.Context, key string, word storage.Word) (bool, error) {
	if word != storage.RerunIsSafe {
		return false, errRerunNotConfirmed
	}
	var forgotten bool
	err := s.unprepared(s.pool).QueryRow(ctx, s.statements.forget, key).Scan(&forgotten)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return forgotten, s.failure("forget", key, err)
}
