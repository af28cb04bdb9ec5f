package core

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// transacts reports whether the store has transactions. One that stands over others
// is a Transactor whatever those are, and says in Transacts what it is worth.
func transacts(store storage.Store) bool {
	if over, says := store.(interface{ Transacts() bool }); says {
		return over.Transacts()
	}
	_, can := store.(storage.Transactor)
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
		r.report(event.Event{Result: event.StoreError, Err: err})
	}
	r.tx = nil
}

// settleUnused releases the key of a run whose handler could not begin.
func (e *Engine) settleUnused(run *Run, cause error) {
	defer run.close()
	run.stopRenewing()
	_ = e.tellStore(run, event.Event{Result: event.DeleteKey, Err: cause}, nil) // what fails is reported, and repeated
}
