package tieredstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// BeginTransaction implements [storage.Transactor] with a transaction of the durable
// tier. The handler gets it as without a hot tier, for example by pgstore.Tx. When
// the durable tier is no Transactor, BeginTransaction returns an error that is
// [errors.ErrUnsupported]; see [Store.Transacts].
func (s *Store) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	durable, can := s.durable.(storage.Transactor)
	if !can {
		return nil, nil, unsupported("begin a transaction", "durable", s.durable)
	}
	handler, tx, err := durable.BeginTransaction(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	return handler, &transaction{Transaction: tx, store: s}, nil
}

// Transacts reports whether the durable tier has transactions (see
// [storage.Transacts]): whether a route over this store may be declared Transactional.
func (s *Store) Transacts() bool { return storage.Transacts(s.durable) }

// transaction is a transaction of the durable tier, and uses that tier's Rollback.
type transaction struct {
	storage.Transaction
	store *Store
}

// Commit implements [storage.Transaction]. A committed result goes to the hot tier
// too. If the reply to the commit was lost, the result does not go there: the next
// request reads the durable tier.
func (t *transaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	asked := time.Now()
	if err := t.Transaction.Commit(ctx, l, res); err != nil {
		return err
	}
	t.store.hot.settle(ctx, asked, l, res)
	return nil
}

func unsupported(operation, tier string, store storage.Store) error {
	return fmt.Errorf("tieredstore: %s: %w by the %s tier, a %T", operation, errors.ErrUnsupported, tier, store)
}
