package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	maximumPage = 1000
	// keysPerPage bounds how many records one call of List reads. Without this bound,
	// a page of a few running records among millions of records would take minutes.
	keysPerPage = 20_000
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

// List implements [storage.Inspector]. Pages are in the order of their keys, and the
// cursor is a key. List skips an unreadable record, and logs a warning with the
// record's key.
func (s *Store) List(ctx context.Context, state storage.State, cursor string, limit int) (page []storage.Entry, next string, err error) {
	if limit < 1 || limit > maximumPage {
		return nil, "", fmt.Errorf("pgstore: list %d records: want from 1 to %d", limit, maximumPage)
	}
	if _, known := storage.ParseState(state.String()); !known {
		return nil, "", fmt.Errorf("pgstore: list records in state %d: want a state of package storage", state)
	}
	var last string
	var looked int
	if err := s.unprepared(s.pool).QueryRow(ctx, s.statements.window, cursor, keysPerPage).Scan(&last, &looked); err != nil {
		return nil, "", fmt.Errorf("pgstore: list: %w", s.explained(err))
	}
	rows, err := s.unprepared(s.pool).Query(ctx, s.statements.list, cursor, last, stateOf(state), limit)
	if err != nil {
		return nil, "", fmt.Errorf("pgstore: list: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanEntry)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("pgstore: list: %w", err)
	case len(found) == limit:
		next = found[limit-1].key
	case looked == keysPerPage:
		next = last
	}
	for _, r := range found {
		record, err := r.decode()
		if err != nil {
			s.log().WarnContext(ctx, "pgstore: a list has skipped a record that cannot be read",
				slog.String("key", r.key), slog.Any("error", err))
			continue
		}
		page = append(page, storage.Entry{Key: r.key, Record: record})
	}
	return page, next, nil
}

// stateOf is the state's name in the tables.
func stateOf(state storage.State) string {
	if state == storage.Expired {
		return gone
	}
	return state.String()
}

// listedRecord is a row of a list.
type listedRecord struct {
	key string
	storedRecord
}

func scanEntry(row pgx.CollectableRow) (r listedRecord, err error) {
	err = row.Scan(&r)
	return r, err
}

// ScanRow implements pgx.RowScanner.
func (r *listedRecord) ScanRow(rows pgx.Rows) error {
	row := newRawRow(rows)
	r.read(row)
	r.key = row.text()
	return row.end()
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
