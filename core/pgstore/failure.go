package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// Error codes of PostgreSQL, see its appendix A.
const (
	readOnlyTransaction   = "25006"
	invalidStatementName  = "26000"
	duplicateStatement    = "42P05"
	insufficientPrivilege = "42501"
	undefinedColumn       = "42703"
	undefinedSchema       = "3F000"
	undefinedTable        = "42P01"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
)

// notApplied reports whether a call certainly changed no row: the server rolled it
// back in favour of another transaction, or never received it.
func notApplied(err error) bool {
	code := codeOf(err)
	return code == serializationFailure || code == deadlockDetected || pgconn.SafeToRetry(err)
}

// isBarred reports whether no replay can be read after a claim's error either.
func isBarred(err error) bool { return notApplied(err) || codeOf(err) == insufficientPrivilege }

// codeOf returns the code of a server's error, or an empty string.
func codeOf(err error) string {
	if refusal, is := errors.AsType[*pgconn.PgError](err); is {
		return refusal.Code
	}
	return ""
}

// refusal returns why a transaction was rolled back. The right that is missing may be
// missing only for a role that the handler has set, so refusal never returns
// storage.ErrStoreForbidden.
func (s *Store) refusal(operation, key string, err error) error {
	if codeOf(err) != insufficientPrivilege {
		err = s.explained(err)
	}
	return fmt.Errorf("pgstore: %s %q: %w: %w", operation, key, storage.ErrRolledBack, err)
}

// explained adds the remedy to an error of the server: a missing or outdated table,
// a missing right, a pooler, or a pool in use.
func (s *Store) explained(err error) error {
	code := codeOf(err)
	if sqlrows.TakesNoChanges(code) {
		s.proof.Doubt() // the next claim is refused
	}
	switch code {
	case undefinedTable, undefinedColumn, undefinedSchema:
		return s.notMigrated(err)
	case insufficientPrivilege:
		s.proof.Doubt() // the next claim finds the missing right
		return fmt.Errorf("%w: %w", storage.ErrStoreForbidden, err)
	case invalidStatementName, duplicateStatement:
		s.proof.Doubt() // the next claim notices the pooler
		return fmt.Errorf("a pooler gives this pool changing sessions, set default_query_exec_mode=exec: %w", err)
	default:
		pool := s.pool.Stat()
		return sqlrows.InFullPool(err, int(pool.AcquiredConns()), int(pool.MaxConns()))
	}
}

func (s *Store) notMigrated(err error) error {
	return fmt.Errorf("table %s is missing, not in the search_path or of another version, run pgstore.Migrate first or name its schema: %w", s.table, err)
}

// unlessRefused marks the error of a write of a record that the server refuses for good.
// pgx has a limit of 1 GB of its own.
func unlessRefused(err error) error {
	if err != nil && (sqlrows.RefusedForGood(codeOf(err), err.Error()) || strings.Contains(err.Error(), "message body too large")) {
		return fmt.Errorf("%w: %w", storage.ErrNotStorable, err)
	}
	return err
}
