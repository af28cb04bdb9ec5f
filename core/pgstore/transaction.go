package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// rollbackDeadline bounds a Rollback. A Rollback whose context has ended gets this
// time too, because an orderly end unlocks the handler's rows at once and keeps the
// connection.
const rollbackDeadline = 2 * time.Second

var (
	// ErrNoTransaction is returned by [Tx] for a context without a transaction: the
	// route's policy is not Transactional, or the context is not the request's, or it is
	// the context of a step (core.Step).
	ErrNoTransaction = errors.New("pgstore: no transaction in this context: the route's policy is not Transactional, or this is not its request's context")

	// ErrNotYours is returned to a handler that tries to commit or roll back its
	// transaction.
	ErrNotYours = errors.New("pgstore: the engine ends this transaction, together with the response")

	errEndedEarly = fmt.Errorf("%w by its own SQL", storage.ErrTransactionEnded)
)

// beginStatement begins a handler's transaction, and marks it in the same round trip. The
// mark ends with the transaction, so a transaction that the handler has begun after it
// (ROLLBACK AND CHAIN, or BEGIN after COMMIT) has none.
const beginStatement = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL oncekey.transaction = 'begun'`

// isBegun: the transaction is the one of beginStatement.
const isBegun = `(current_setting('oncekey.transaction', true) = 'begun') IS TRUE`

// Transactional declares a route whose handler writes in a transaction, which it gets
// from [Tx]. It is policy.Transactional(true), and reads better beside Tx.
func Transactional() policy.Option { return policy.Transactional(true) }

// Tx returns the transaction of the request with this context, on a route whose
// policy is Transactional. The handler's writes in the transaction are committed
// together with the handler's response, or not at all. ctx is the request's context, one
// derived from it, or the handler's *gin.Context.
//
// Its Commit and Rollback return [ErrNotYours]; a savepoint, from its Begin, ends as
// usual. Its isolation level is read committed, whatever the database's default,
// because other transactions renew the lease in the meantime. Use the transaction
// from one goroutine at a time, and not after the handler has returned.
//
// The store completes the record in this transaction, with the transaction's role and
// settings. A handler must not end it in SQL, make it read only, leave it with a role that
// may not write records or a search_path without their table, or turn synchronous_commit off: docs/sql.md has the outcome of
// each. When the database refuses the record or the commit (for example by a deferred
// constraint), the whole transaction is rolled back and the key is released. Locks, settings
// and temporary tables that outlive the transaction stay with the connection, which goes
// back to the pool.
//
// The transaction holds a connection of the pool while the handler runs. When as many
// handlers run as the pool has connections, no request can claim or renew a lease.
// Make the pool larger, or give the store its own pool. A frozen process keeps the row locks
// of its transaction: set idle_in_transaction_session_timeout to about the policy's LockTTL.
func Tx(ctx context.Context) (pgx.Tx, error) {
	tx, there := storage.TransactionFrom(ctx).(pgx.Tx)
	if !there {
		return nil, ErrNoTransaction
	}
	return tx, nil
}

// handlerTx is the handler's transaction, without the right to end it.
type handlerTx struct{ pgx.Tx }

func (handlerTx) Commit(context.Context) error { return ErrNotYours }

func (handlerTx) Rollback(context.Context) error { return ErrNotYours }

// BeginTransaction implements [storage.Transactor]. Handlers use [Tx].
func (s *Store) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	var tx pgx.Tx
	err := s.records.Retry(ctx, func() (err error) {
		tx, err = s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginStatement})
		return err
	})
	if err != nil {
		return nil, nil, s.records.Failure("begin a transaction for", l.Key, err)
	}
	return storage.WithTransaction(ctx, handlerTx{tx}), &transaction{store: s, tx: tx}, nil
}

// transaction is a [storage.Transaction].
type transaction struct {
	store *Store
	tx    pgx.Tx
	// ended: the connection is back in the pool.
	ended bool
}

// Commit implements [storage.Transaction]. It returns storage.ErrLeaseLost also for a
// lease that this token has finished already, because the stored response is not this
// transaction's.
func (t *transaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	const operation = "commit the transaction of"
	if t.ended {
		return t.store.records.Failure(operation, l.Key, pgx.ErrTxClosed)
	}
	err := t.whole()
	if err == nil {
		err = t.store.records.CompleteIn(ctx, runner{t.store, t.tx}, &l, &res)
	}
	switch {
	case errors.Is(err, storage.ErrTransactionEnded):
		t.discard(ctx)
		return t.store.records.Failure(operation, l.Key, err)
	case err != nil:
		_ = t.Rollback(ctx) // the server has received no COMMIT, and rolls back even without ROLLBACK
		if errors.Is(err, storage.ErrLeaseLost) {
			return storage.ErrLeaseLost
		}
		return t.store.refusal(operation, l.Key, unlessRefused(err))
	}
	t.ended = true
	err = t.tx.Commit(ctx) // releases the connection in any case
	if isRefusal(err) {
		return t.store.refusal(operation, l.Key, err)
	}
	return t.store.records.Failure(operation, l.Key, err)
}

// isRefusal reports whether a COMMIT's error means that the server has rolled back. A
// server that ends the connection (FATAL) may have committed before, and a pooler's
// errors have no unlocalized severity. pgconn.SafeToRetry is not asked: before pgx 5.13
// it returned true for a lost reply.
func isRefusal(err error) bool {
	if said, is := errors.AsType[*pgconn.PgError](err); is {
		return said.SeverityUnlocalized == "ERROR"
	}
	return errors.Is(err, pgx.ErrTxCommitRollback)
}

// begun returns an error unless a transaction is one that the store has begun.
func (s *Store) begun(ctx context.Context, db querier) error {
	var begun bool
	err := session{s.unprepared(db)}.one(ctx, `SELECT `+isBegun, &begun)
	if err == nil && !begun {
		err = errEndedEarly
	}
	return err
}

// whole returns an error unless there is a transaction in which to complete the
// record. Without a transaction the record would be committed alone. A handler that
// ended the transaction in SQL may have committed its writes, so the error is no
// refusal. A failed transaction or a broken connection shows when the record is
// completed.
func (t *transaction) whole() error {
	const idle = 'I'
	if t.tx.Conn().PgConn().TxStatus() == idle {
		return errEndedEarly
	}
	return nil
}

// discard closes the connection, which the handler may have left with locks or settings.
func (t *transaction) discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackDeadline)
	defer cancel()
	_ = t.tx.Conn().Close(ctx) // the server rolls back without a reply
	_ = t.Rollback(ctx)        // the pool takes the connection back, and removes it
}

// Rollback implements [storage.Transaction]. It may take up to two seconds after ctx
// has ended, to unlock the handler's rows.
func (t *transaction) Rollback(ctx context.Context) error {
	if t.ended {
		return nil
	}
	t.ended = true
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, rollbackDeadline)
	defer cancel()
	if err := t.tx.Rollback(ctx); err != nil {
		// The connection has been closed, and the server rolls back the uncommitted
		// transaction.
		return fmt.Errorf("pgstore: roll back: %w", err)
	}
	return nil
}
