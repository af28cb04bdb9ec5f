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

// Codes of PostgreSQL, see its appendix A.
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
	// maximumTries of one call, the first included.
	maximumTries = 5
	// firstPause is how long a call waits at most before its second try; each
	// further pause may be twice as long.
	firstPause = 10 * time.Millisecond
)

// retry repeats a call that has certainly done nothing (case 19): the server has
// rolled it back for the sake of another one, or was never asked. After any other
// error nobody knows, and the caller decides: each call of a [storage.Store] can be
// repeated.
func (s *Store) retry(ctx context.Context, call func() error) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := call()
		if err == nil || try == maximumTries || ctx.Err() != nil || !notApplied(err) {
			return err
		}
		timer := time.NewTimer(rand.N(pause)) //nolint:gosec // no secret: callers who met shall not meet again
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

// codeOf is the code of the server's own error, or empty.
func codeOf(err error) string {
	if refusal, is := errors.AsType[*pgconn.PgError](err); is {
		return refusal.Code
	}
	return ""
}

// failure says what failed, and for which key.
func (s *Store) failure(operation, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgstore: %s %q: %w", operation, key, s.explained(err))
}

// refusal says why a transaction was rolled back. A right that is missing here may be
// missing to the handler's own role, so this is never storage.ErrStoreForbidden.
func (s *Store) refusal(operation, key string, err error) error {
	if codeOf(err) != insufficientPrivilege {
		err = s.explained(err)
	}
	return fmt.Errorf("pgstore: %s %q: %w: %w", operation, key, storage.ErrRolledBack, err)
}

// explained adds what to do about an error of the server: a table or a function that
// is not as this version needs it, a right that is missing, a pooler.
func (s *Store) explained(err error) error {
	switch codeOf(err) {
	case undefinedTable, undefinedColumn, undefinedFunction:
		return s.notMigrated(err)
	case insufficientPrivilege:
		s.readiness.proven.Store(false) // the next claim finds out which right it is
		return fmt.Errorf("%w: %w", storage.ErrStoreForbidden, err)
	case invalidStatementName, duplicateStatement:
		return fmt.Errorf("a pooler keeps no session for this pool, set default_query_exec_mode=exec: %w", err)
	default:
		return err
	}
}

func (s *Store) notMigrated(err error) error {
	return fmt.Errorf("schema %q is not as this version needs it, run pgstore.Migrate first: %w", s.schema, err)
}
