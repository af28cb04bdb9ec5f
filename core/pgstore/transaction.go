package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core"
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
	errAborted    = errors.New("a statement of the handler has failed, and so the transaction with it")
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

// BeginTransaction implements [core.Transactor]. See [Tx] for what the handler
// makes of it.
func (s *Store) BeginTransaction(ctx context.Context, l core.Lease) (context.Context, core.Transaction, error) {
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

// transaction is a [core.Transaction].
type transaction struct {
	store *Store
	tx    pgx.Tx
	// ended: the connection serves somebody else.
	ended bool
}

// Commit implements [core.Transaction]. A lease that this token has finished
// already is lost too: there is an answer, and it is not the one of this
// transaction.
func (t *transaction) Commit(ctx context.Context, l core.Lease, res core.Result) error {
	err := t.complete(ctx, l, res)
	if err == nil {
		t.ended = true
		err = t.tx.Commit(ctx) // gives the connection back, whatever happens
	} else {
		_ = t.Rollback(ctx) // no error of it changes that nothing is committed
	}
	if errors.Is(err, core.ErrLeaseLost) {
		return core.ErrLeaseLost
	}
	return t.store.failure("commit the transaction of", l.Key, err)
}

func (t *transaction) complete(ctx context.Context, l core.Lease, res core.Result) error {
	if err := t.whole(); err != nil {
		return err
	}
	completed, err := t.store.complete(ctx, t.tx, l, res)
	if err == nil && !completed {
		err = core.ErrLeaseLost
	}
	return err
}

// whole looks at what the handler has left. Without a transaction the record would
// be committed by itself.
func (t *transaction) whole() error {
	const idle, inTransaction, inFailedTransaction = 'I', 'T', 'E'
	if t.ended {
		return pgx.ErrTxClosed
	}
	switch status := t.tx.Conn().PgConn().TxStatus(); status {
	case inTransaction:
		return nil
	case inFailedTransaction:
		return errAborted
	case idle:
		return errEndedEarly
	default:
		return fmt.Errorf("the transaction's connection is in state %q", status)
	}
}

// Rollback implements [core.Transaction]. It takes up to two seconds, when ctx has
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
