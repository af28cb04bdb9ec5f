package core

import (
	"context"
	"fmt"
	"time"
)

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

// transacts reports whether the store has transactions. One that stands over others
// is a Transactor whatever those are, and says in Transacts what it is worth.
func transacts(store Store) bool {
	if over, says := store.(interface{ Transacts() bool }); says {
		return over.Transacts()
	}
	_, can := store.(Transactor)
	return can
}

// beginTransaction gives the run of a transactional route its transaction. The
// policy's StoreTimeout bounds the beginning, and MaxRun the transaction.
func (e *Engine) beginTransaction(run *Run) error {
	if !run.subject.route.policy.Transactional {
		return nil
	}
	ctx, cancel := context.WithCancel(&run.context)
	tooLate := time.AfterFunc(run.subject.route.policy.StoreTimeout, cancel)
	handler, tx, err := e.store.BeginTransaction(ctx, run.lease)
	if err == nil && !tooLate.Stop() {
		run.tx = tx
		run.rollback()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return fmt.Errorf("begin a transaction: %w", err)
	}
	run.handler, run.tx, run.endTransaction = handler, tx, cancel
	return nil
}

// rollback undoes what the handler of a transactional route wrote. Where that
// fails the connection is broken, and the database does it by itself.
func (r *Run) rollback() {
	if r.tx == nil {
		return
	}
	err := callStore(context.WithoutCancel(&r.context), r.subject.route.policy.StoreTimeout, r.tx.Rollback)
	if err != nil {
		r.report(Event{Result: ResultStoreError, Err: err})
	}
	r.tx = nil
}

// settleUnused releases the key of a run whose handler could not begin.
func (e *Engine) settleUnused(run *Run, cause error) {
	defer run.close()
	run.stopRenewing()
	_ = e.tellStore(run, Event{Result: ResultDeleteKey, Err: cause}, nil) // what fails is reported, and repeated
}
