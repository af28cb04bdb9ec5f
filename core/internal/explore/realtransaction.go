package explore

import (
	"context"
	"errors"

	"github.com/oncekey/oncekey/core/storage"
)

// realTransaction is a handler's transaction in a real database.
type realTransaction struct {
	storage.Transaction
	*transaction
	wire    *wire
	handler context.Context //nolint:containedctx // the context holds the transaction
}

// BeginTransaction implements storage.Transactor.
func (l *wire) BeginTransaction(ctx context.Context, lease storage.Lease) (context.Context, storage.Transaction, error) {
	tx := &realTransaction{wire: l, transaction: &transaction{who: l.world.callerOf(lease.Token)}}
	err := l.call(Begin, tx.who, func() (v verdict) {
		v.source = -1
		tx.handler, tx.Transaction, v.err = l.Store.(storage.Transactor).BeginTransaction(ctx, lease) //nolint:forcetypeassert // see Transacts
		if v.err == nil {
			l.keep(tx.Transaction)
		}
		return v
	})
	if err != nil {
		return nil, nil, err
	}
	return context.WithValue(tx.handler, transactionKey{}, tx.transaction), tx, nil
}

// Commit implements storage.Transaction. The effect is a row of the database.
func (tx *realTransaction) Commit(ctx context.Context, lease storage.Lease, res storage.Result) error {
	l := tx.wire
	return l.call(Commit, tx.who, func() verdict {
		if len(tx.effects) > 0 {
			_ = l.Write(ctx, tx.handler, l.world.tenant, tx.who.request) // a failed Write makes the commit fail
		}
		tx.ended = true
		err := tx.Transaction.Commit(ctx, lease, res)
		for _, effect := range tx.effects {
			effect.At = l.world.since()
			switch {
			case err == nil:
				l.world.add(effect)
			case !errors.Is(err, storage.ErrLeaseLost) && !errors.Is(err, storage.ErrRolledBack):
				l.world.real.doubt(effect)
			}
		}
		return settledBy(err, res.State.String())
	})
}

// doubt keeps an effect until resolve reads whether the database has it.
func (r *reality) doubt(effect Fact) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.unknown = append(r.unknown, effect)
}

// Rollback implements storage.Transaction.
func (tx *realTransaction) Rollback(ctx context.Context) error {
	if tx.ended {
		return tx.Transaction.Rollback(ctx)
	}
	tx.ended = true
	return tx.wire.call(Rollback, tx.who, func() verdict {
		return settledBy(tx.Transaction.Rollback(ctx), "rolled back")
	})
}

// keep records a transaction until the connection is closed.
func (l *wire) keep(tx storage.Transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = append(l.begun, tx)
}

// end closes the connection. A killed process and a panicking client leave
// transactions open, and the pool would wait for them.
func (l *wire) end() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tx := range l.begun {
		_ = tx.Rollback(ended) // a Rollback after the transaction's end has no effect
	}
	l.Close()
}
