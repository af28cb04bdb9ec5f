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

// rollbackDeadline bounds a Rollback. One whose context has ended gets it all the
// same: an orderly end frees the handler's locks at once and saves the connection.
const rollbackDeadline = 2 * time.Second

var (
	// ErrNoTransaction is returned by [Tx] for a context that has no transaction:
	// the route's policy is not Transactional, or the context is not the request's.
	ErrNoTransaction = errors.New("pgstore: no transaction in this context: the route's policy is not Transactional, or this is not its request's context")

	// ErrNotYours is returned to a handler that tries to end its transaction itself.
	ErrNotYours = errors.New("pgstore: this transaction is the engine's to end, together with the answer")

	errEndedEarly = errors.New("the handler has ended the transaction itself, with SQL of its own")
)

// Transactional declares a route whose handler writes in a transaction, which it
// gets from [Tx]. It is policy.Transactional(true), and reads better beside Tx.
func Transactional() policy.Option { return policy.Transactional(true) }

// Tx returns the transaction that belongs to the request whose context it is, on a
// route whose policy is Transactional. What the handler writes in it is committed
// together with the handler's answer, or not at all.
//
//	func pay(w http.ResponseWriter, r *http.Request) {
//		tx, err := pgstore.Tx(r.Context())
//		if err != nil {
//			http.Error(w, "no transaction", http.StatusInternalServerError)
//			return
//		}
//		_, err = tx.Exec(r.Context(), `INSERT INTO payments (amount) VALUES ($1)`, amount)
//
// Its Commit and Rollback return [ErrNotYours]; a savepoint, from its Begin, ends as
// usual. It is read committed, whatever the database's default, because the lease
// is renewed in the meantime by other transactions. It is used by one goroutine
// at a time, and not after the handler has returned.
//
// The store completes the record in this transaction, with the transaction's role
// and settings. A handler that changes the role (SET ROLE, SET LOCAL ROLE) must
// execute RESET ROLE before it returns, unless that role may write records too.
// After SET TRANSACTION READ ONLY nothing can be completed. It must not turn
// synchronous_commit off, nor execute COMMIT or ROLLBACK in SQL. When the database
// refuses the record or the commit (a deferred constraint too), everything is
// rolled back and the key is released.
//
// The transaction has a connection of the pool for as long as the handler runs: a
// pool is empty when as many handlers run as it has connections, and nothing can
// claim or renew a lease then. Leave room, or give the store a pool of its own.
//
// A process that is frozen keeps its transaction's row locks, and the attempt
// that takes over waits for them. Set idle_in_transaction_session_timeout on the
// pool's connections to about the policy's LockTTL, and they end with the lease.
func Tx(ctx context.Context) (pgx.Tx, error) {
	tx, there := ctx.Value(transactionKey{}).(pgx.Tx)
	if !there {
		return nil, ErrNoTransaction
	}
	return tx, nil
}

type transactionKey struct{}

// handlerTx is a transaction in the hands of somebody who may not end it.
type handlerTx struct{ pgx.Tx }

func (handlerTx) Commit(context.Context) error { return ErrNotYours }

func (handlerTx) Rollback(context.Context) error { return ErrNotYours }

// BeginTransaction implements [storage.Transactor]. See [Tx] for what the handler
// makes of it.
func (s *Store) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	var tx pgx.Tx
	err := s.retry(ctx, func() (err error) {
		tx, err = s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		return err
	})
	if err != nil {
		return nil, nil, s.failure("begin a transaction for", l.Key, err)
	}
	return context.WithValue(ctx, transactionKey{}, pgx.Tx(handlerTx{tx})), &transaction{store: s, tx: tx}, nil
}

// transaction is a [storage.Transaction].
type transaction struct {
	store *Store
	tx    pgx.Tx
	// ended: the connection serves somebody else.
	ended bool
}

// Commit implements [storage.Transaction]. A lease that this token has finished
// already is lost too: there is an answer, and it is not the one of this
// transaction.
func (t *transaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	const operation = "commit the transaction of"
	if err := t.whole(); err != nil {
		_ = t.Rollback(ctx) // its error changes nothing
		return t.store.failure(operation, l.Key, err)
	}
	if err := t.complete(ctx, l, res); err != nil {
		_ = t.Rollback(ctx) // the server never saw a COMMIT, and rolls back without being asked
		if errors.Is(err, storage.ErrLeaseLost) {
			return storage.ErrLeaseLost
		}
		return t.store.refusal(operation, l.Key, err)
	}
	t.ended = true
	err := t.tx.Commit(ctx) // gives the connection back, whatever happens
	if isRefusal(err) {
		return t.store.refusal(operation, l.Key, err)
	}
	return t.store.failure(operation, l.Key, err)
}

// isRefusal reports whether the error of a COMMIT means that the server has rolled
// back. A server that ends the connection (FATAL) may have committed before, and a
// pooler's errors have no unlocalized severity. pgconn.SafeToRetry is of no use: it
// is true for a reply that was lost.
func isRefusal(err error) bool {
	if said, is := errors.AsType[*pgconn.PgError](err); is {
		return said.SeverityUnlocalized == "ERROR"
	}
	return errors.Is(err, pgx.ErrTxCommitRollback)
}

func (t *transaction) complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	db, arguments := t.store.often(t.tx), completion(l, res)
	completed, err := t.store.complete(ctx, db, arguments)
	if err == nil && !completed {
		completed, err = t.store.restore(ctx, db, l, arguments)
	}
	if err == nil && !completed {
		return storage.ErrLeaseLost
	}
	if err == nil {
		err = ctx.Err() // a COMMIT must not be sent too late: its reply would be lost
	}
	return err
}

// whole returns an error unless there is a transaction to complete the record in.
// Without one the record would be committed alone. A handler that ended the
// transaction in SQL may have committed its writes, so this is no refusal. A failed
// transaction, or a broken connection, shows when the record is completed.
func (t *transaction) whole() error {
	const idle = 'I'
	if t.ended {
		return pgx.ErrTxClosed
	}
	if t.tx.Conn().PgConn().TxStatus() == idle {
		return errEndedEarly
	}
	return nil
}

// Rollback implements [storage.Transaction]. It takes up to two seconds, when ctx has
// ended too, to free what the handler has locked.
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
		// The connection has been closed over it, and the server rolls back what it
		// has not seen committed.
		return fmt.Errorf("pgstore: roll back: %w", err)
	}
	return nil
}
