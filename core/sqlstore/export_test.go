package sqlstore

import "github.com/oncekey/oncekey/core/storage"

// MaximumTries of one call.
const MaximumTries = maximumTries

// IsPrompt reports whether calls of the store's driver need no goroutine.
func (s *Store) IsPrompt() bool { return s.prompt }

// Judge reads an error of a driver.
func Judge(err error) (contended, forbidden bool) {
	f := faultOf(err)
	return f.contended(), f.forbidden()
}

// BeforeCommit calls a function after the record is written in a transaction, and
// before the transaction's COMMIT.
func BeforeCommit(t storage.Transaction, call func()) storage.Transaction {
	t.(*transaction).beforeCommit = call
	return t
}
