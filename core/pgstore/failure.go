package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekey/oncekey/core/storage"
)

// Error codes of PostgreSQL, see its appendix A.
const (
	invalidStatementName  = "26000"
	duplicateStatement    = "42P05"
	insufficientPrivilege = "42501"
	undefinedColumn       = "42703"
	undefinedFunction     = "42883"
	undefinedTable        = "42P01"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
)

const (
	// maximumTries of one call, including the first.
	maximumTries = 5
	// firstPause is the longest pause before a call's second try. Each further pause
	// may be twice as long.
	firstPause = 10 * time.Millisecond
)

// retry repeats a call that certainly changed no row (case 19): the server rolled it
// back in favour of another transaction, or never received it. After any other error
// the effect is unknown. The caller then decides, because each call of a
// [storage.Store] can be repeated.
func (s *Store) retry(ctx context.Context, call func() error) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := call()
		if err == nil || try == maximumTries || ctx.Err() != nil || !notApplied(err) {
			return err
		}
		timer := time.NewTimer(rand.N(pause)) //nolint:gosec // no secret: the pause separates callers that collided
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w, while retrying after: %w", ctx.Err(), err)
		}
		pause *= 2
	}
}

func notApplied(err error) bool {
	code := codeOf(err)
	return code == serializationFailure || code == deadlockDetected || pgconn.SafeToRetry(err)
}

// codeOf returns the code of a server's error, or an empty string.
func codeOf(err error) string {
	if refusal, is := errors.AsType[*pgconn.PgError](err); is {
		return refusal.Code
	}
	return ""
}

// failure adds the operation and the key to an error.
func (s *Store) failure(operation, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgstore: %s %q: %w", operation, key, s.explained(err))
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

// explained adds the remedy to an error of the server: a missing or outdated table or
// function, a missing right, or a pooler.
func (s *Store) explained(err error) error {
	switch codeOf(err) {
	case undefinedTable, undefinedColumn, undefinedFunction:
		return s.notMigrated(err)
	case insufficientPrivilege:
		s.readiness.proven.Store(false) // the next claim finds the missing right
		return fmt.Errorf("%w: %w", storage.ErrStoreForbidden, err)
	case invalidStatementName, duplicateStatement:
		return fmt.Errorf("a pooler gives this pool changing sessions, set default_query_exec_mode=exec: %w", err)
	default:
		return err
	}
}

func (s *Store) notMigrated(err error) error {
	return fmt.Errorf("schema %q lacks tables, columns or functions of this version, run pgstore.Migrate first: %w", s.schema, err)
}
