package sealedstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

// BeginTransaction implements [storage.Transactor] with a transaction of the next store:
// the handler finds it as it would without a seal, with pgstore.Tx. When that store is no
// Transactor it returns an error that is [errors.ErrUnsupported]; see [Store.Transacts].
func (s *Store) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	next, can := s.next.(storage.Transactor)
	if !can {
		return nil, nil, s.unsupported("begin a transaction")
	}
	l.Steps = "" // which Extend alone writes
	handler, tx, err := next.BeginTransaction(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	return handler, &transaction{Transaction: tx, store: s}, nil
}

// Transacts reports whether the next store has transactions (see [storage.Transacts]):
// whether a route over this store may be declared Transactional.
func (s *Store) Transacts() bool { return storage.Transacts(s.next) }

// transaction is one of the next store, whose Rollback it has.
type transaction struct {
	storage.Transaction
	store *Store
}

// Commit implements [storage.Transaction]. A response that cannot be sealed is never
// committed: all is rolled back.
func (t *transaction) Commit(ctx context.Context, l storage.Lease, res storage.Result) error {
	sealed, err := t.store.seal(ctx, &l, res)
	if err != nil {
		return errors.Join(fmt.Errorf("sealedstore: commit %q: %w: %w", l.Key, storage.ErrRolledBack, err), t.Rollback(ctx))
	}
	l.Steps = "" // which end with the run
	return t.Transaction.Commit(ctx, l, sealed)
}

// Lookup implements [storage.Inspector]. It opens the record, and returns the errors that
// Acquire returns when it cannot. When the next store is no Inspector the error is
// [errors.ErrUnsupported].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	next, can := s.next.(storage.Inspector)
	if !can {
		return nil, s.unsupported("look up")
	}
	found, err := next.Lookup(ctx, key)
	if err != nil || found == nil {
		return nil, err
	}
	if found, err = s.open(ctx, key, found); err != nil {
		return nil, fmt.Errorf("sealedstore: look up %q: %w", key, err)
	}
	return found, nil
}

// List implements [storage.Inspector]. It opens nothing, because a list has no responses,
// so it also has records that Lookup cannot open. When the next store is no Inspector the
// error is [errors.ErrUnsupported].
func (s *Store) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	next, can := s.next.(storage.Inspector)
	if !can {
		return storage.Listing{}, s.unsupported("list")
	}
	return next.List(ctx, filter, page)
}

// Settle implements [storage.Inspector]. It needs no key, because a settled record has no
// response. When the next store is no Inspector the error is [errors.ErrUnsupported].
func (s *Store) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	next, can := s.next.(storage.Inspector)
	if !can {
		return s.unsupported("settle")
	}
	return next.Settle(ctx, key, attempt, confirmation)
}

// Forget implements [storage.Inspector]. It forgets records that cannot be opened, too.
// When the next store is no Inspector the error is [errors.ErrUnsupported].
func (s *Store) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	next, can := s.next.(storage.Inspector)
	if !can {
		return false, s.unsupported("forget")
	}
	return next.Forget(ctx, key, confirmation)
}

// Check implements [storage.Checker]. The next store's check comes first, if it is a Checker.
// Then the AEAD seals and opens a trial text: with a key service that is a call of each kind
// for each Check.
func (s *Store) Check(ctx context.Context) error {
	if next, can := s.next.(storage.Checker); can {
		if err := next.Check(ctx); err != nil {
			return err
		}
	}
	if err := s.try(ctx); err != nil {
		return fmt.Errorf("sealedstore: check: %w", err)
	}
	return nil
}

// Examine implements [storage.Examiner]. It returns the findings of the next store, with
// "next store" before each check, and one about the seal: the AEAD seals and opens a
// trial text.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	const check = "seal"
	findings := examination.Nested(ctx, "next store", s.next) // first: a key service that hangs leaves no time
	seal := examination.Good(check, "the AEAD opens what it seals")
	if err := s.try(ctx); err != nil {
		seal = examination.Mend(check, err.Error(), "mend the key service, or this program's right to use the key: requests get 503")
	}
	if s.readPlain && seal.Grade == storage.Good {
		seal = examination.Look(check, seal.Seen+", ReadPlain is set", "remove ReadPlain after the first TTL: a writer of the store can forge responses")
	}
	return append(findings, seal)
}

func (s *Store) unsupported(operation string) error {
	return fmt.Errorf("sealedstore: %s: %w by the next store, a %T", operation, errors.ErrUnsupported, s.next)
}
