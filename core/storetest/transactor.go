package storetest

import (
	"context"
	"errors"
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
	for _, c := range transactorCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, config)
		})
	}
}

// transactorCase is one rule about transactions.
type transactorCase struct {
	name, rule string
	test       func(f *transactorFixture)
}

func (c transactorCase) run(t testing.TB, config TransactorConfig) {
	unit := config.Unit
	if unit <= 0 {
		unit = defaultUnit
	}
	defer func() {
		if t.Failed() {
			t.Logf("the rule: %s", c.rule)
		}
	}()
	store, table := config.New(t)
	c.test(&transactorFixture{fixture: newFixture(t, store, unit), store: store, table: table})
}

// transactorFixture is the environment of a case, with one transaction.
type transactorFixture struct {
	*fixture
	store   storage.Transactor
	table   Table
	lease   storage.Lease
	handler context.Context
	tx      storage.Transaction
}

const row = "row"

// begin writes a row in a transaction under the lease of a new claim.
func (f *transactorFixture) begin(c storage.Claim) {
	f.Helper()
	f.lease = f.win(c, 1, false)
	var err error
	f.handler, f.tx, err = f.store.BeginTransaction(f.Context(), f.lease)
	if err != nil {
		f.Fatalf("BeginTransaction: %v", err)
	}
	if err := f.table.Write(f.handler, row); err != nil {
		f.Fatalf("write in the transaction: %v", err)
	}
}

// written expects the row, or no row.
func (f *transactorFixture) written(want bool) {
	f.Helper()
	if has, err := f.table.Has(f.Context(), row); err != nil || has != want {
		f.Errorf("the handler's row is there: %v, %v, want %v", has, err, want)
	}
}

// commit expects Commit to succeed.
func (f *transactorFixture) commit() {
	f.Helper()
	if err := f.tx.Commit(f.Context(), f.lease, f.result(f.lease)); err != nil {
		f.Fatalf("Commit: %v", err)
	}
}

// rollback expects Rollback to succeed.
func (f *transactorFixture) rollback(ctx context.Context) {
	f.Helper()
	if err := f.tx.Rollback(ctx); err != nil {
		f.Errorf("Rollback: %v", err)
	}
}

// lost expects Commit to return ErrLeaseLost and to write nothing.
func (f *transactorFixture) lost() {
	f.Helper()
	f.isLost("Commit", f.tx.Commit(f.Context(), f.lease, f.result(f.lease)))
	f.written(false)
}

var transactorCases = []transactorCase{
	{
		name: "commit",
		rule: "a Commit stores the response and the handler's writes together, and neither is visible before",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			f.written(false)
			f.holds(f.lease)
			f.commit()
			f.written(true)
			f.replays(f.lease, f.result(f.lease))
		},
	},
	{
		name: "the lease is renewed in a transaction",
		rule: "an Extend does not wait for the transaction under its lease",
		test: func(f *transactorFixture) {
			f.begin(f.shortClaim())
			f.extend(f.lease, f.long())
			f.wait(2 * f.unit)
			f.holds(f.lease)
			f.commit()
			f.replays(f.lease, f.result(f.lease))
		},
	},
	{
		name: "rollback",
		rule: "a Rollback undoes the handler's writes and leaves the lease, which can be released",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			f.rollback(f.Context())
			f.written(false)
			f.holds(f.lease)
			f.release(f.lease)
			f.win(f.claim(), 1, false)
		},
	},
	{
		name: "rollback after the context ended",
		rule: "a Rollback undoes the handler's writes also when its context has ended",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			ended := f.ended()
			f.rollback(ended)
			f.written(false)
			f.holds(f.lease)
		},
	},
	{
		name: "rollback after commit",
		rule: "a Rollback after Commit has no effect, and a second Commit is an error",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			f.commit()
			f.rollback(f.Context())
			if err := f.tx.Commit(f.Context(), f.lease, f.result(f.lease)); err == nil {
				f.Error("a second Commit returned nil, want an error")
			}
			f.written(true)
			f.replays(f.lease, f.result(f.lease))
		},
	},
	{
		name: "commit without time",
		rule: "a Commit whose context has ended writes nothing, and its error wraps ErrRolledBack",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			ended := f.ended()
			if err := f.tx.Commit(ended, f.lease, f.result(f.lease)); !errors.Is(err, storage.ErrRolledBack) {
				f.Errorf("Commit returned %v, want ErrRolledBack", err)
			}
			f.written(false)
			f.holds(f.lease)
		},
	},
	{
		name: "commit after a take-over",
		rule: "once another attempt holds the key, Commit returns ErrLeaseLost and writes nothing (cases 5, 6)",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			f.extend(f.lease, 0)
			current := f.win(f.takeOver(), 2, true)
			f.lost()
			f.holds(current)
		},
	},
	{
		name: "commit after another attempt's response",
		rule: "once another attempt has completed the key, Commit returns ErrLeaseLost, and that response stays",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			f.extend(f.lease, 0)
			current := f.win(f.takeOver(), 2, true)
			f.complete(current, f.result(current))
			f.lost()
			f.replays(current, f.result(current))
		},
	},
	{
		name: "commit after a Complete of its own lease",
		rule: "a response that was stored without the transaction is not the transaction's: Commit returns ErrLeaseLost and writes nothing",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
			f.complete(f.lease, f.result(f.lease))
			f.lost()
		},
	},
	{
		name: "commit of an expired lease",
		rule: "a Commit after the lease ended succeeds while no other attempt has claimed the key, as Complete does",
		test: func(f *transactorFixture) {
			f.begin(f.shortClaim())
			f.wait(2 * f.unit)
			f.commit()
			f.written(true)
			f.replays(f.lease, f.result(f.lease))
		},
	},
	{
		name: "commit of a result that is remembered",
		rule: "a committed response has the origin and the times of its run, and leaves a tombstone for its Remember, as with Complete",
		test: func(f *transactorFixture) {
			f.begin(f.claim())
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
		},
	},
	{
		name: "begin without time",
		rule: "a BeginTransaction whose context has ended returns an error, and the lease stays",
		test: func(f *transactorFixture) {
			lease := f.win(f.claim(), 1, false)
			ended := f.ended()
			if _, _, err := f.store.BeginTransaction(ended, lease); err == nil {
				f.Error("BeginTransaction returned nil, want an error")
			}
			f.holds(lease)
		},
	},
}
