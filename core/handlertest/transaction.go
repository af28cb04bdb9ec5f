package handlertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Transactor = (*link)(nil)

// beginTransaction is the name of the point.
const beginTransaction = "store: Begin"

// ownKey marks the context of a transaction of the kit. Its BEGIN and its COMMIT are no
// points, because the calls to the store around them are.
type ownKey struct{}

func isOwn(ctx context.Context) bool { return ctx != nil && ctx.Value(ownKey{}) != nil }

// Transacts reports whether the service has a database for transactions.
func (l *link) Transacts() bool { return l.process.world.service.DB != nil }

// BeginTransaction implements storage.Transactor. As in sqlstore, the handler's context does
// not end the transaction.
func (l *link) BeginTransaction(ctx context.Context, _ storage.Lease) (context.Context, storage.Transaction, error) {
	var tx *sql.Tx
	err := l.call(settle, beginTransaction, func() (err error) {
		tx, err = l.process.world.service.DB.BeginTx(context.WithValue(context.WithoutCancel(ctx), ownKey{}, true), nil)
		return err
	})
	if err != nil {
		if tx != nil { // the reply was lost
			_ = tx.Rollback()
		}
		return nil, nil, err
	}
	return storage.WithTransaction(ctx, tx), &transaction{l, tx}, nil
}

// transaction is a handler's transaction. Its response is in the store's memory.
type transaction struct {
	link *link
	tx   *sql.Tx
}

// Commit implements storage.Transaction. No time passes in the bubble between the look at the
// lease and the two writes, so that they are one.
func (t *transaction) Commit(ctx context.Context, lease storage.Lease, result storage.Result) error {
	memory := t.link.process.world.memory
	err := t.link.call(settle, "store: Commit", func() error {
		record, err := memory.Lookup(ctx, lease.Key)
		if err != nil {
			return err
		}
		if record == nil || record.State != storage.InProgress || record.Attempt != lease.Attempt {
			return storage.ErrLeaseLost
		}
		switch err := t.tx.Commit(); {
		case errors.Is(err, sql.ErrTxDone):
			return fmt.Errorf("%w: %w", storage.ErrTransactionEnded, err)
		case err != nil:
			return fmt.Errorf("%w: %w", storage.ErrRolledBack, err)
		}
		return memory.Complete(ctx, lease, result)
	})
	if err != nil {
		_ = t.tx.Rollback() // after a commit it has no effect
	}
	return err
}

// Rollback implements storage.Transaction. It is no point: the server rolls back for a process
// that was killed, too.
func (t *transaction) Rollback(context.Context) error {
	_ = t.tx.Rollback() // its connection may be broken
	return nil
}
