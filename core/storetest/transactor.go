package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// TransactorConfig describes a store with transactions and a table beside the store's
// records, in which a handler writes.
type TransactorConfig struct {
	// New returns a store without records, and the table. Each case calls New once.
	// Required.
	New func(t testing.TB) (storage.Transactor, Table)

	// Unit is the length of the short leases, as in Config.
	Unit time.Duration
}

// Table is a table in the database of a storage.Transactor.
type Table struct {
	// Write inserts a row within the transaction of the handler's context.
	Write func(handler context.Context, id string) error
	// Has reports whether the row was committed. It uses a connection of its own.
	Has func(ctx context.Context, id string) (bool, error)
}

// RunTransactor runs every case about [storage.Transactor] against a store of its own.
// Run such a store through [Run] too.
func RunTransactor(t *testing.T, config TransactorConfig) {
	t.Helper()
	needNew(t, config.New != nil)
	runAll(t, transactorCases, nil, config.open)
}

func (c TransactorConfig) open(t testing.TB) *fixture {
	store, table := c.New(t)
	f := newFixture(t, store, c.Unit)
	f.transactor, f.table = store, table
	return f
}

// transaction is the environment of a case about one transaction.
type transaction struct {
	*fixture
	lease   storage.Lease
	handler context.Context
	tx      storage.Transaction
}

const row = "row"

// inTransaction returns the test of a case that begins with a claim and a row in a transaction under its lease.
func inTransaction(claim func(f *fixture) storage.Claim, test func(f *transaction)) func(f *fixture) {
	return func(f *fixture) {
		f.Helper()
		t := &transaction{fixture: f, lease: f.win(claim(f), 1, false)}
		var err error
		t.handler, t.tx, err = f.transactor.BeginTransaction(f.Context(), t.lease)
		if err != nil {
			f.Fatalf("BeginTransaction: %v", err)
		}
		if err := f.table.Write(t.handler, row); err != nil {
			f.Fatalf("write in the transaction: %v", err)
		}
		test(t)
	}
}

// written expects the row, or no row.
func (f *transaction) written(want bool) {
	f.Helper()
	if has, err := f.table.Has(f.Context(), row); err != nil || has != want {
		f.Errorf("the handler's row is there: %v, %v, want %v", has, err, want)
	}
}

// commit expects Commit to succeed.
func (f *transaction) commit() {
	f.Helper()
	if err := f.tx.Commit(f.Context(), f.lease, f.result(f.lease)); err != nil {
		f.Fatalf("Commit: %v", err)
	}
}

// rollback expects Rollback to succeed.
func (f *transaction) rollback(ctx context.Context) {
	f.Helper()
	if err := f.tx.Rollback(ctx); err != nil {
		f.Errorf("Rollback: %v", err)
	}
}

// lost expects Commit to return ErrLeaseLost and to write nothing.
func (f *transaction) lost() {
	f.Helper()
	f.isLost("Commit", f.tx.Commit(f.Context(), f.lease, f.result(f.lease)))
	f.written(false)
}

// writeLate writes a row in a transaction under the lease.
func (f *fixture) writeLate(lease storage.Lease) error {
	handler, tx, err := f.transactor.BeginTransaction(f.Context(), lease)
	if err != nil {
		return err
	}
	id := row + lease.Key[len(lease.Key)-1:]
	if err := f.table.Write(handler, id); err != nil {
		return errors.Join(err, tx.Rollback(f.Context()))
	}
	err = tx.Commit(f.Context(), lease, f.result(lease))
	has, lookErr := f.table.Has(f.Context(), id)
	switch {
	case lookErr != nil:
		return lookErr
	case has != (err == nil):
		return fmt.Errorf("the Commit has succeeded: %t, and the handler's row is there: %t", err == nil, has)
	case errors.Is(err, storage.ErrRolledBack): // by a deadlock, for example
		return storage.ErrLeaseLost
	}
	return err
}

var transactorCases = []testCase{
	{
		name: "commit",
		rule: "a Commit stores the response and the handler's writes together, and neither is visible before",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.written(false)
			f.holds(f.lease)
			f.commit()
			f.written(true)
			f.replays(f.lease, f.result(f.lease))
		}),
	},
	{
		name: "the lease is renewed in a transaction",
		rule: "an Extend does not wait for the transaction under its lease",
		test: inTransaction((*fixture).shortClaim, func(f *transaction) {
			f.extend(f.lease, f.long())
			f.wait(2 * f.unit)
			f.holds(f.lease)
			f.commit()
			f.replays(f.lease, f.result(f.lease))
		}),
	},
	{
		name: "rollback",
		rule: "a Rollback undoes the handler's writes and leaves the lease, which can be released",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.rollback(f.Context())
			f.written(false)
			f.holds(f.lease)
			f.release(f.lease)
			f.win(f.claim(), 1, false)
		}),
	},
	{
		name: "rollback after the context ended",
		rule: "a Rollback undoes the handler's writes also when its context has ended",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.rollback(f.ended())
			f.written(false)
			f.holds(f.lease)
		}),
	},
	{
		name: "rollback after commit",
		rule: "a Rollback after Commit has no effect, and a second Commit is an error",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.commit()
			f.rollback(f.Context())
			if err := f.tx.Commit(f.Context(), f.lease, f.result(f.lease)); err == nil {
				f.Error("a second Commit returned nil, want an error")
			}
			f.written(true)
			f.replays(f.lease, f.result(f.lease))
		}),
	},
	{
		name: "commit without time",
		rule: "a Commit whose context has ended writes nothing, and its error wraps ErrRolledBack",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.isError("Commit", f.tx.Commit(f.ended(), f.lease, f.result(f.lease)), storage.ErrRolledBack)
			f.written(false)
			f.holds(f.lease)
		}),
	},
	{
		name: "commit after a take-over",
		rule: "once another attempt holds the key, Commit returns ErrLeaseLost and writes nothing",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.extend(f.lease, 0)
			current := f.win(f.takeOver(), 2, true)
			f.lost()
			f.holds(current)
		}),
	},
	{
		name: "commit after another attempt's response",
		rule: "once another attempt has completed the key, Commit returns ErrLeaseLost, and that response stays",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.extend(f.lease, 0)
			current := f.win(f.takeOver(), 2, true)
			f.complete(current, f.result(current))
			f.lost()
			f.replays(current, f.result(current))
		}),
	},
	{
		name: "commit after a Complete of its own lease",
		rule: "a response that was stored without the transaction is not the transaction's: Commit returns ErrLeaseLost and writes nothing",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.complete(f.lease, f.result(f.lease))
			f.lost()
		}),
	},
	{
		name: "commit of an expired lease",
		rule: "a Commit after the lease ended succeeds while no other attempt has claimed the key, as Complete does",
		test: inTransaction((*fixture).shortClaim, func(f *transaction) {
			f.wait(2 * f.unit)
			f.commit()
			f.written(true)
			f.replays(f.lease, f.result(f.lease))
		}),
	},
	{
		name: "commit of a result that is remembered",
		rule: "a committed response has the origin and the times of its run, and leaves a tombstone for its Remember, as with Complete",
		test: inTransaction((*fixture).claim, func(f *transaction) {
			f.lease = f.record(f.lease, "first\n")
			f.wait(4 * f.unit)
			f.lease.Age = 4 * f.unit
			res := f.result(f.lease)
			res.Retain, res.Remember = 10*f.unit, f.long()
			if err := f.tx.Commit(f.Context(), f.lease, res); err != nil {
				f.Fatalf("Commit: %v", err)
			}
			r := f.timed(f.lease.Key)
			f.shows(r, f.lease, res)
			f.hasSteps(r, "")
			f.isFrom(f.lease.Key, origin)
			f.lasts("the run", r.Created, r.Finished, 4*f.unit)
			f.lasts("Retain", r.Finished, r.Expires, res.Retain)
			f.wait(11 * f.unit)
			f.remembers(f.lease, res.Status)
		}),
	},
	{
		name: "concurrent commits",
		rule: "of a late holder's Commit and concurrent take-overs exactly one succeeds, and the handler's row is there if the Commit does: " +
			"else an effect happens twice",
		test: func(f *fixture) {
			f.together(callersOfEach, func(n int) error { return f.callAgainstTakeOvers(key(n), n, f.writeLate) })
		},
	},
	{
		name: "begin without time",
		rule: "a BeginTransaction whose context has ended returns an error, and the lease stays",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			if _, _, err := f.transactor.BeginTransaction(f.ended(), lease); err == nil {
				f.Error("BeginTransaction returned nil, want an error")
			}
			f.holds(lease)
		},
	},
}
