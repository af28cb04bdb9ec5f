package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// Names that tests need beside the package's exported ones.
const (
	AcquireRounds = acquireRounds
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

// AlwaysBatch lets single calls be batches too.
func (s *Store) AlwaysBatch() *Store {
	s.claims.always, s.completions.always = true, true
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

// VersionFinding is the finding about a server of this number.
func VersionFinding(number string) storage.Finding {
	e := examiner{settings: map[string]string{"server_version_num": number}}
	return e.version(context.Background(), "version")
}

// Rows is a store on the table of package sqlstore.
type Rows interface {
	storage.Store
	storage.Inspector
	storage.Transactor
	Sweep(ctx context.Context, batch int) (removed int64, err error)
}

// NewRows returns a store on a new table of package sqlstore. always: single calls are batches too.
func NewRows(ctx context.Context, t testing.TB, s *Store, table string, always bool) Rows {
	t.Helper()
	for _, step := range sqlrows.Migrations("postgresql", table) {
		if _, err := s.pool.Exec(ctx, step.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	return OpenRows(s, table, always)
}

// OpenRows is NewRows on a table that is there.
func OpenRows(s *Store, table string, always bool) Rows {
	r := newRows(s, table)
	r.claims.always, r.completions.always = always, always
	return r
}
