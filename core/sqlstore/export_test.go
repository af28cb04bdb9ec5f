package sqlstore

import (
	"strings"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// MaximumTries of one call.
const MaximumTries = sqlrows.MaximumTries

// IsPrompt reports whether calls of the store's driver need no goroutine.
func (s *Store) IsPrompt() bool { return s.prompt }

// Judge reads an error of a driver.
func Judge(err error) (words string) {
	f := faultOf(err)
	for i, is := range []bool{f.contended(), f.refused(), f.forbidden(), f.mixedUp(err), f.noSavepoint(), f.refusedForGood()} {
		if is {
			words += [...]string{"contended ", "refused ", "forbidden ", "mixed up ", "ended ", "for good "}[i]
		}
	}
	return strings.TrimSpace(words)
}

// BeforeCommit calls a function after the record is written in a transaction, and
// before the transaction's COMMIT.
func BeforeCommit(t storage.Transaction, call func()) storage.Transaction {
	t.(*transaction).beforeCommit = call
	return t
}

// WithUnknownVariable is MySQL's dialect with a variable that no server knows, in place of
// the one that old servers do not know.
func WithUnknownVariable() Dialect {
	d := MySQL()
	d.newest = strings.Replace(d.newest, "innodb_snapshot_isolation", "innodb_no_such_variable", 1)
	return d
}

// WithoutPatience is MySQL's dialect whose migration waits for no other.
func WithoutPatience() Dialect {
	d := MySQL()
	d.LockOrNot = strings.Replace(d.LockOrNot, ", 60)", ", 0)", 1)
	return d
}
