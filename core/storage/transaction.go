package storage

import (
	"context"
	"sync/atomic"

	"github.com/oncekey/oncekey/internal/guarded"
)

// Transactor is a Store in a database that handlers write to. A handler can write
// in one transaction with its response. After a crash either both writes exist or
// neither.
//
// A store that wraps another store also has a method Transacts() bool, which reports
// whether the wrapped store has transactions. Where Transacts returns false, Route
// refuses a transactional policy.
type Transactor interface {
	Store
	// BeginTransaction opens a transaction for the handler that runs under l, and
	// returns a context that carries the transaction to the handler. Make the context
	// with WithTransaction, so that the steps of the handler do not find the
	// transaction.
	BeginTransaction(ctx context.Context, l Lease) (context.Context, Transaction, error)
}

// Transacts reports whether a store has transactions. A wrapping store always
// implements Transactor, and its Transacts method reports whether the wrapped store
// supports transactions.
func Transacts(store Store) bool {
	if wrapper, ok := store.(interface{ Transacts() bool }); ok {
		return wrapper.Transacts()
	}
	_, ok := store.(Transactor)
	return ok
}

// Transaction belongs to one handler. One goroutine at a time uses a Transaction,
// which ends in Commit or in Rollback.
type Transaction interface {
	// Commit completes the lease within the transaction, as Store.Complete does, and
	// commits. Its errors mean:
	//
	//   - ErrLeaseLost: another attempt holds the key, or the stored response is not
	//     this transaction's. The transaction was rolled back.
	//   - A wrapped ErrRolledBack: the transaction was rolled back for certain, because
	//     the database returned an error or never received the commit. A response that
	//     the database can never keep is rolled back too: ErrNotStorable is then wrapped
	//     as well.
	//   - A wrapped ErrTransactionEnded: the handler has ended the transaction by itself.
	//     Its writes may be committed, and the record is not completed.
	//   - Any other error: the reply was lost, and only the record shows whether the
	//     transaction was committed. A Release after that waits for the transaction to
	//     end.
	Commit(ctx context.Context, l Lease, res Result) error
	// Rollback undoes the handler's writes, and returns the connection to the pool
	// even when ctx has ended. After Commit, Rollback has no effect.
	Rollback(ctx context.Context) error
}

type transactionKey struct{}

// carried is a transaction in a context.
type carried struct {
	tx    any
	taken atomic.Bool // by TransactionFrom
}

// WithTransaction returns a context that carries a transaction to a handler. The store's
// own function for handlers finds the transaction by TransactionFrom.
func WithTransaction(ctx context.Context, tx any) context.Context {
	return context.WithValue(ctx, transactionKey{}, &carried{tx: tx})
}

// TransactionFrom returns the transaction of WithTransaction, or nil: ctx carries none,
// or belongs to a step of core.Step. It finds the transaction also in a *gin.Context of
// the handler.
func TransactionFrom(ctx context.Context) any {
	found, carries := guarded.Value(ctx, transactionKey{}).(*carried)
	if !carries {
		return nil
	}
	found.taken.Store(true)
	return found.tx
}

// TransactionTaken reports whether TransactionFrom has returned the transaction of ctx. It
// returns true for a context that WithTransaction did not make, because its transaction
// may be taken in another way. The engine calls TransactionTaken for a handler that has
// responded.
func TransactionTaken(ctx context.Context) bool {
	found, carries := ctx.Value(transactionKey{}).(*carried)
	return !carries || found.taken.Load()
}

// WithoutTransaction returns a context that hides the transaction of ctx. The engine
// calls a step with such a context: a recorded step stays when the transaction rolls
// back.
func WithoutTransaction(ctx context.Context) context.Context {
	return context.WithValue(ctx, transactionKey{}, hidden{})
}

type hidden struct{}
