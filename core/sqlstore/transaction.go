package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// rollbackDeadline bounds a Rollback.
const rollbackDeadline = 2 * time.Second

// The savepoint exists for as long as the handler's transaction. A handler that ends
// the transaction by its own SQL, or by a statement that commits implicitly (as CREATE
// TABLE does in MySQL), ends the savepoint too. Without this, the record could be
// written outside of the transaction.
const (
	setSavepoint     = `SAVEPOINT oncekey`
	releaseSavepoint = `RELEASE SAVEPOINT oncekey`
	backToSavepoint  = `ROLLBACK TO SAVEPOINT oncekey`
)

var (
	// ErrNoTransaction is returned by [Tx] for a context without a transaction: the
	// route's policy is not Transactional, or the context is not the request's, or it is
	// the context of a step (core.Step).
	ErrNoTransaction = errors.New("sqlstore: no transaction in this context: the route's policy is not Transactional, or this is not its request's context")

	errSingleWriter = errors.New("sqlstore: SQLite has no handlers in transactions, because one handler would keep all other requests waiting")
	errEnded        = errors.New("the transaction has ended")
)

// Transactional declares a route whose handler writes in a transaction, which it gets
// from [Tx]. It is policy.Transactional(true), and reads better beside Tx.
func Transactional() policy.Option { return policy.Transactional(true) }

// Tx returns the transaction of the request with this context, on a route whose
// policy is Transactional. The handler's writes in the transaction are committed
// together with the handler's response, or not at all. ctx is the request's context, one
// derived from it, or the handler's *gin.Context.
//
//	func pay(w http.ResponseWriter, r *http.Request) {
//		tx, err := sqlstore.Tx(r.Context())
//		if err != nil {
//			http.Error(w, "no transaction", http.StatusInternalServerError)
//			return
//		}
//		_, err = tx.ExecContext(r.Context(), `INSERT INTO payments (amount) VALUES (?)`, amount)
//
// The handler must not call its Commit or Rollback, nor execute statements that end a
// transaction. In MySQL these are also CREATE, ALTER, LOCK TABLES and other statements
// that commit implicitly. The engine then reports an unknown outcome, because the
// handler's writes may be committed without the response, and the connection is closed.
// Locks and settings that outlive a transaction stay with any other connection, which goes
// back to the pool. Use the transaction from one goroutine at a time, and not after the
// handler has returned.
//
// In PostgreSQL its isolation level is READ COMMITTED. In MySQL it is the session's own
// level. A lease that is renewed meanwhile does not make the commit fail, under any level.
//
// The transaction holds a connection of the pool while the handler runs. When as many
// handlers run as the pool has connections, no request can claim or renew a lease. Make
// the pool larger, or give the store its own pool.
//
// When the context of a statement ends, the driver of MySQL closes the connection, and
// the transaction is rolled back.
func Tx(ctx context.Context) (*sql.Tx, error) {
	tx, there := storage.TransactionFrom(ctx).(*sql.Tx)
	if !there {
		return nil, ErrNoTransaction
	}
	return tx, nil
}

// Transacts reports whether the database has transactions for handlers: PostgreSQL and
// MySQL do, SQLite does not. A route with a transactional policy is refused for SQLite.
func (s *Store) Transacts() bool { return !s.dialect.singleWriter }

// BeginTransaction implements [storage.Transactor]. Handlers use [Tx].
func (s *Store) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	if !s.Transacts() {
		return nil, nil, errSingleWriter
	}
	var t *transaction
	err := s.records.Retry(ctx, func() (err error) {
		t, err = s.begin(ctx)
		return err
	})
	if err != nil {
		return nil, nil, s.records.Failure("begin a transaction for", l.Key, err)
	}
	return storage.WithTransaction(ctx, t.tx), t, nil
}

// begin opens a transaction that ctx no longer ends once it is open. The statement of its end is
// prepared before: preparing takes a connection, and other handlers may hold all by then.
func (s *Store) begin(ctx context.Context) (*transaction, error) {
	if of := s.statements[sqlrows.Complete].inTransaction; of != nil && of.prepared.Load() == nil {
		prepare := func() (*sql.Stmt, error) { return s.on(ctx, of) }
		if _, err := ask(ctx, s, prepare); err != nil { //nolint:sqlclosecheck // it lives as long as the pool
			return nil, err
		}
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	level := sql.LevelDefault
	if s.dialect.readCommitted {
		level = sql.LevelReadCommitted
	}
	tx, err := ask(ctx, s, func() (*sql.Tx, error) {
		tx, err := s.db.BeginTx(lasting, &sql.TxOptions{Isolation: level})
		if err == nil {
			_, err = tx.ExecContext(ctx, setSavepoint)
		}
		return tx, err
	})
	if !detach() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel() // rolls back
		return nil, err
	}
	return &transaction{store: s, tx: tx, cancel: cancel}, nil
}

// transaction is a [storage.Transaction].
type transaction struct {
	store *Store
	tx    *sql.Tx
	// cancel ends the context of tx, which rolls an open transaction back.
	cancel context.CancelFunc
	ended  bool
	// whole: the handler has not ended the transaction. endedEarly: it has.
	whole, endedEarly bool
	// beforeCommit is for tests, or nil.
	beforeCommit func()
}

// Commit implements [storage.Transaction]. It returns storage.ErrLeaseLost also for a
// lease that this token has finished already, because the stored response is not this
// transaction's.
func (t *transaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	const operation = "commit the transaction of"
	if t.ended {
		return t.store.records.Failure(operation, l.Key, errEnded)
	}
	if err := t.complete(ctx, &l, &res); err != nil {
		_ = t.Rollback(ctx) // the server has received no COMMIT, and rolls back even without ROLLBACK
		switch {
		case errors.Is(err, storage.ErrLeaseLost):
			return storage.ErrLeaseLost
		case errors.Is(err, storage.ErrTransactionEnded):
			return t.store.records.Failure(operation, l.Key, err)
		default:
			return t.store.refusal(operation, l.Key, sqlrows.Ended(ctx, err))
		}
	}
	t.ended = true
	if t.beforeCommit != nil {
		t.beforeCommit()
	}
	err := t.end(ctx, t.tx.Commit)
	if err != nil && faultOf(err).refused() {
		return t.store.refusal(operation, l.Key, err)
	}
	return t.store.records.Failure(operation, l.Key, err)
}

// complete writes the record in the transaction.
func (t *transaction) complete(ctx context.Context, l *storage.Lease, res *storage.Result) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.checkWhole(ctx); err != nil {
		return err
	}
	return t.store.records.CompleteIn(ctx, runner{t.store, t.tx}, l, res)
}

// checkWhole returns an error unless the transaction is the one that the store has begun.
func (t *transaction) checkWhole(ctx context.Context) error {
	err := t.exec(ctx, releaseSavepoint)
	if faultOf(err).state == failedTransaction { // it releases no savepoint
		if gone := t.exec(ctx, backToSavepoint); gone != nil {
			err = gone
		}
	}
	t.whole = err == nil
	if t.endedEarly = faultOf(err).noSavepoint() || errors.Is(err, sql.ErrTxDone); t.endedEarly {
		return fmt.Errorf("%w: %w", storage.ErrTransactionEnded, err)
	}
	if errors.Is(err, driver.ErrBadConn) { // is all that pgx and go-sql-driver say of open rows
		err = fmt.Errorf("the connection is lost, or the handler has left rows of a query open: %w", err)
	}
	return err
}

func (t *transaction) exec(ctx context.Context, text string) error {
	_, err := ask(ctx, t.store, func() (sql.Result, error) { return t.tx.ExecContext(ctx, text) })
	return err
}

// discard ends the connection at the server, where the handler may have left locks or
// settings on it. The pool then removes it.
func (t *transaction) discard(ctx context.Context) {
	for _, statement := range t.store.dialect.endConnection {
		_ = t.exec(ctx, statement) // fails with the connection
	}
}

// end sends COMMIT or ROLLBACK. The pool gets its connection back when the driver
// returns. pgx closes it when ctx ends.
func (t *transaction) end(ctx context.Context, send func() error) error {
	defer t.cancel()
	_, err := within(ctx, func() (struct{}, error) { return struct{}{}, send() })
	return err
}

// Rollback implements [storage.Transaction]. It may take up to two seconds after ctx
// has ended, to unlock the handler's rows. After that the rollback goes on without its
// caller.
func (t *transaction) Rollback(ctx context.Context) error {
	if t.ended {
		return nil
	}
	t.ended = true
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), rollbackDeadline)
	defer stop()
	if t.store.dialect.keepsLocks && !t.whole && !t.endedEarly {
		_ = t.checkWhole(ctx) // LOCK TABLES has ended it
	}
	if t.endedEarly {
		t.discard(ctx)
	}
	if err := t.end(ctx, t.tx.Rollback); err != nil && !t.endedEarly && !errors.Is(err, sql.ErrTxDone) {
		// The connection has been closed, and the server rolls back the uncommitted
		// transaction.
		return fmt.Errorf("sqlstore: roll back: %w", err)
	}
	return nil
}

// refusal returns why a transaction was rolled back. A right may be missing only for a
// role that the handler has set, so refusal never returns storage.ErrStoreForbidden.
func (s *Store) refusal(operation, key string, err error) error {
	if !faultOf(err).forbidden() {
		err = s.explained(err)
	}
	return fmt.Errorf("sqlstore: %s %q: %w: %w", operation, key, storage.ErrRolledBack, err)
}
