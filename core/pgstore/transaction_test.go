package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

// run is a handler in a transaction.
type run struct {
	context.Context
	storage.Transaction
	tx    pgx.Tx
	lease storage.Lease
	store *pgstore.Store
	pool  *pgxpool.Pool
}

// begin claims key and opens a transaction, in a database with a table payments.
func begin(t *testing.T, change func(*pgxpool.Config)) run {
	t.Helper()
	return beginWith(t, change)
}

// beginWith is begin for a handler that executes statements before it pays.
func beginWith(t *testing.T, change func(*pgxpool.Config), first ...string) run {
	t.Helper()
	r := run{pool: migrated(t, postgrestest.Shared(t), change)}
	execute(t, r.pool, `CREATE TABLE payments (amount int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	r.store = pgstore.New(r.pool)
	r.lease = win(t, r.store, claim("key"))
	var err error
	r.Context, r.Transaction, err = r.store.BeginTransaction(t.Context(), r.lease)
	must(t, err)
	r.tx, err = pgstore.Tx(r.Context)
	must(t, err)
	for _, statement := range first {
		_, err = r.tx.Exec(r.Context, statement)
		must(t, err)
	}
	r.pay(t, 7)
	return r
}

func (r run) pay(t *testing.T, amount int) {
	t.Helper()
	_, err := r.tx.Exec(r.Context, `INSERT INTO payments VALUES ($1)`, amount)
	must(t, err)
}

// terminate ends the transaction's backend, and waits until it is gone.
func (r run) terminate(t *testing.T) {
	t.Helper()
	backend := r.tx.Conn().PgConn().PID()
	execute(t, r.pool, `SELECT pg_terminate_backend($1)`, backend)
	eventually(t, func() bool {
		return queryOne[int](t, r.pool, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, backend) == 0
	})
}

// ends expects both the payment and the response, or neither, and the connection to
// be back in the pool.
func (r run) ends(t *testing.T, committed bool) {
	t.Helper()
	eventually(t, func() bool { return r.pool.Stat().AcquiredConns() == 0 })
	want := 0
	if committed {
		want = 1
	}
	if payments := queryOne[int](t, r.pool, `SELECT count(*) FROM payments`); payments != want {
		t.Errorf("there are %d payments, want %d", payments, want)
	}
	record, err := r.store.Lookup(t.Context(), "key")
	must(t, err)
	if answered := record != nil && record.State == storage.Completed && string(record.Body) == "paid"; answered != committed {
		t.Errorf("the record is %+v, want the response stored: %t", record, committed)
	}
	must(t, r.Rollback(t.Context())) // once more
	if err := r.Commit(t.Context(), r.lease, result("again")); err == nil {
		t.Error("committing once more returned nil, want an error")
	}
}

// TestTransactor runs the suite for stores with transactions.
func TestTransactor(t *testing.T) {
	t.Parallel()
	pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.MaxConns = 20 })
	execute(t, pool, `CREATE TABLE written (id text)`)
	var cases atomic.Int32
	storetest.RunTransactor(t, storetest.TransactorConfig{
		New: func(t testing.TB) (storage.Transactor, storetest.Table) {
			n := cases.Add(1)
			return named(t, pool, fmt.Sprint("transactor_", n)), table(pool, n)
		},
		Unit: 400 * time.Millisecond,
	})
}

// table is the n-th case's part of the table written.
func table(pool *pgxpool.Pool, n int32) storetest.Table {
	named := func(id string) string { return fmt.Sprintf("%d %s", n, id) }
	return storetest.Table{
		Write: func(handler context.Context, id string) error {
			tx, err := pgstore.Tx(handler)
			if err != nil {
				return err
			}
			_, err = tx.Exec(handler, `INSERT INTO written VALUES ($1)`, named(id))
			return err
		},
		Has: func(ctx context.Context, id string) (has bool, err error) {
			err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM written WHERE id = $1)`, named(id)).Scan(&has)
			return has, err
		},
	}
}

// The handler's context may have ended: its rows are unlocked, and the connection is
// kept.
func TestRollbackAfterTheContextHasEnded(t *testing.T) {
	t.Parallel()
	r := begin(t, func(config *pgxpool.Config) { config.MaxConns = 1 })
	backend := r.tx.Conn().PgConn().PID()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, r.Rollback(ended))
	r.ends(t, false)
	if now := queryOne[uint32](t, r.pool, `SELECT pg_backend_pid()`); now != backend {
		t.Errorf("the connection is backend %d's, want %d's, as before", now, backend)
	}
}

func TestRollbackOfBrokenConnection(t *testing.T) {
	t.Parallel()
	r := begin(t, nil)
	r.terminate(t)
	if err := r.Rollback(t.Context()); err == nil {
		t.Error("Rollback on a dead connection returned nil, want an error")
	}
	r.ends(t, false)
}

func TestHandlerCannotEndItsTransaction(t *testing.T) {
	t.Parallel()
	r := begin(t, nil)
	for name, end := range map[string]func(context.Context) error{"Commit": r.tx.Commit, "Rollback": r.tx.Rollback} {
		if err := end(t.Context()); !errors.Is(err, pgstore.ErrNotYours) {
			t.Errorf("%s returned %v, want ErrNotYours", name, err)
		}
	}
	savepoint, err := r.tx.Begin(t.Context())
	must(t, err)
	_, err = savepoint.Exec(t.Context(), `INSERT INTO payments VALUES (8)`)
	must(t, err)
	must(t, savepoint.Rollback(t.Context()))
	must(t, r.Commit(t.Context(), r.lease, result("paid")))
	r.ends(t, true)
}

func TestNoTransactionInThisContext(t *testing.T) {
	t.Parallel()
	if tx, err := pgstore.Tx(t.Context()); tx != nil || !errors.Is(err, pgstore.ErrNoTransaction) {
		t.Errorf("Tx returned %v and %v, want ErrNoTransaction", tx, err)
	}
	r := begin(t, nil)
	if tx, err := pgstore.Tx(storage.WithoutTransaction(r.Context)); tx != nil || !errors.Is(err, pgstore.ErrNoTransaction) { // as in a step
		t.Errorf("in a step Tx returned %v and %v, want ErrNoTransaction", tx, err)
	}
	must(t, r.Rollback(t.Context()))
}

// The database's default would fail each commit after a renewal of the lease.
func TestTransactionsAreReadCommitted(t *testing.T) {
	t.Parallel()
	r := begin(t, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	must(t, r.store.Extend(t.Context(), r.lease, time.Minute))
	must(t, r.Commit(t.Context(), r.lease, result("paid")))
	r.ends(t, true)
}
