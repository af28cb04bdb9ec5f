package explore

import (
	"context"

	"github.com/oncekey/oncekey/core/storage"
)

// transaction is a handler's transaction at the simulated store. Its effects count
// at the commit. Only one goroutine at a time uses it.
type transaction struct {
	link    *link
	who     caller
	effects []Fact
	ended   bool
}

type transactionKey struct{}

// BeginTransaction implements storage.Transactor.
func (l *link) BeginTransaction(ctx context.Context, lease storage.Lease) (context.Context, storage.Transaction, error) {
	who := l.world.callerOf(lease.Token)
	v := l.call(ctx, Begin, who, func() verdict { return verdict{source: -1} })
	if v.err != nil {
		return nil, nil, v.err
	}
	tx := &transaction{link: l, who: who}
	return context.WithValue(ctx, transactionKey{}, tx), tx, nil
}

// Commit implements storage.Transaction.
func (tx *transaction) Commit(ctx context.Context, lease storage.Lease, res storage.Result) error {
	return tx.link.call(ctx, Commit, tx.who, func() verdict {
		v := tx.link.world.store.complete(lease, res, tx.who.request, Commit)
		if v.word == "again" {
			v.err, v.word = storage.ErrLeaseLost, "lease lost"
		}
		tx.ended = true
		if v.err == nil {
			for _, effect := range tx.effects {
				tx.link.world.add(effect)
			}
		}
		return v
	}).err
}

// Rollback implements storage.Transaction.
func (tx *transaction) Rollback(ctx context.Context) error {
	if tx.ended {
		return nil
	}
	tx.ended = true
	return tx.link.call(ctx, Rollback, tx.who, func() verdict { return verdict{source: -1, word: "rolled back"} }).err
}
