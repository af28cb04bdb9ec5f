package storage

import "context"

// Transactor is a Store that lives in a database in which handlers write too. It
// lets them write in one transaction with their answer: both are there, or
// neither is, whatever dies in between.
//
// A store over another one, which has transactions if that one has, also has a
// method Transacts() bool: where it returns false, Route refuses a transactional
// policy.
type Transactor interface {
	Store
	// BeginTransaction opens a transaction for the handler that runs under l, and
	// returns a context in which the handler finds it.
	BeginTransaction(ctx context.Context, l Lease) (context.Context, Transaction, error)
}

// Transaction is one handler's. It is used by one goroutine at a time and ends
// in Commit or in Rollback.
type Transaction interface {
	// Commit completes the lease within the transaction, as Store.Complete does,
	// and commits. ErrLeaseLost: another attempt holds the key, or it was completed
	// already and that response is not this transaction's; all was rolled back. An
	// error that wraps ErrRolledBack: all was rolled back for certain, because the
	// database answered with an error or was never asked. Any other error: the reply
	// was lost, and only the record tells whether the transaction was committed; a
	// Release after that waits for it.
	Commit(ctx context.Context, l Lease, res Result) error
	// Rollback undoes what the handler wrote, and gives the connection back also
	// when ctx has ended. After Commit it does nothing.
	Rollback(ctx context.Context) error
}
