// Package sqlrows keeps records as rows of a SQL database. It has every statement, the
// columns, and the rules of claiming and settling. Package sqlstore drives it through
// database/sql, and package pgstore through pgx.
package sqlrows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Executor runs the statements of one record: on a pool, or in a handler's transaction. Its
// implementations are comparable.
type Executor interface {
	// Find returns the row that a statement reads, or nil without one.
	Find(ctx context.Context, of Name, a *Arguments) (*Row, error)
	// Exec runs a statement that writes, and reports whether it has changed a row. A write
	// that the database refuses for good is a wrapped storage.ErrNotStorable.
	Exec(ctx context.Context, of Name, a *Arguments) (bool, error)
}

// Pool is an Executor that runs the statements of several records too.
type Pool interface {
	Executor
	// Each calls take for the rows that a statement reads, until take returns false. unread
	// is the error of a row that is not readable. Without columns, for Overdue, a row has
	// its key only.
	Each(ctx context.Context, of Name, a *Arguments, take func(r *Row, unread error) bool) error
	// Change runs a statement with a list of keys after its other values, and returns how
	// many rows it has changed.
	Change(ctx context.Context, text string, values []any) (int64, error)
}

// Records is a store without its database.
type Records struct {
	// Package is the name of the store's package, which begins each error.
	Package string
	Pool    Pool
	Form    *Form
	Table   string
	// Proof is the check of rights and table before the first claim.
	Proof *Proof
	// Seen is nil where reading costs no round trip.
	Seen *Seen
	// Swept counts the records that sweeps have removed, if it is not nil.
	Swept *atomic.Int64
	// Logger is nil for slog.Default().
	Logger *slog.Logger

	// Again reports whether a call that ended in an error certainly changed no row, and may
	// do better now.
	Again func(err error) bool
	// Barred reports whether no replay can be read after a claim's error either: it is one of
	// contention, or the role lacks a right.
	Barred func(err error) bool
	// Duplicate reports whether an INSERT found a row with its key. It is nil for a database
	// with Form.OnConflict.
	Duplicate func(err error) bool
	// Explained adds the remedy to an error of the database.
	Explained func(err error) error
}

func (s *Records) log() *slog.Logger { return cmp.Or(s.Logger, slog.Default()) }

const (
	// MaximumTries of one call, including the first.
	MaximumTries = 5
	// firstPause is the longest pause before a call's second try. Each further pause
	// may be twice as long.
	firstPause = 10 * time.Millisecond
)

// Retry repeats a call that certainly changed no row. After any other error the effect
// is unknown. The caller then decides, because each call of a [storage.Store] can be
// repeated.
func (s *Records) Retry(ctx context.Context, call func() error) error {
	pause := firstPause
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := call()
		if err == nil || try == MaximumTries || ctx.Err() != nil || errors.Is(err, storage.ErrNotStorable) || !s.Again(err) {
			return Ended(ctx, err)
		}
		timer := time.NewTimer(rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w, while retrying after: %w", ctx.Err(), err)
		}
		pause *= 2
	}
}

// Ended adds the error of an ended context, which a driver may replace by one of its
// own. A dial ends at the deadline itself, and so a moment before its context.
func Ended(ctx context.Context, err error) error {
	end := ctx.Err()
	if deadline, has := ctx.Deadline(); has && end == nil && !time.Now().Before(deadline) {
		end = context.DeadlineExceeded
	}
	if err == nil || end == nil || errors.Is(err, end) || errors.Is(err, storage.ErrLeaseLost) {
		return err
	}
	return fmt.Errorf("%w: %w", end, err)
}

// InFullPool adds to the error of a call whose context ended that the pool, whose size may be
// unlimited, has no free connection: the database may be well, and its errors say nothing.
func InFullPool(err error, inUse, size int) error {
	if size <= 0 || inUse < size || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("all %d connections of the pool are in use: %w", size, err)
}

// Failure adds the operation and the key to an error.
func (s *Records) Failure(operation, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s %q: %w", s.Package, operation, key, s.Explained(err))
}
