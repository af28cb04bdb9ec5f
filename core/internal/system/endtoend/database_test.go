package endtoend

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
)

// database is the tests' own access to the processes' PostgreSQL.
type database struct {
	t    *testing.T
	dsn  string
	pool *pgxpool.Pool
}

func openDatabase(t *testing.T, dsn string) *database {
	t.Helper()
	return &database{t, dsn, service.Pool(t, dsn)}
}

func (d *database) execute(statement string, arguments ...any) {
	d.t.Helper()
	if _, err := d.pool.Exec(d.t.Context(), statement, arguments...); err != nil {
		d.t.Fatal(err)
	}
}

// ask returns the only value that a query finds.
func ask[T any](d *database, query string, arguments ...any) T {
	d.t.Helper()
	var value T
	testkit.Must(d.t, d.pool.QueryRow(d.t.Context(), query, arguments...).Scan(&value))
	return value
}

// barrier is a transaction of the test whose locks make a process wait.
type barrier struct {
	database *database
	tx       pgx.Tx
	pid      uint32
}

// stops are the places where a transfer can be made to wait, in their order.
const (
	beforeItsWrites  = `SELECT FROM payments_accounts WHERE name = 'alice' FOR UPDATE`
	betweenItsWrites = `SELECT FROM payments_accounts WHERE name = 'bob' FOR UPDATE`
	atItsLastWrite   = `LOCK TABLE payments_transfers IN SHARE MODE`
	atItsRecord      = `SELECT FROM oncekey_records WHERE state = 'in_progress' FOR UPDATE` // the record must exist
	inItsCommit      = `SELECT pg_advisory_xact_lock(1)`                                    // see letCommitsWait

	// The place where a payment can be made to wait.
	atItsCharge = `LOCK TABLE payments_ledger IN SHARE MODE`
)

// letCommitsWait makes the commit of a transfer wait for the barrier inItsCommit: the
// process has sent the commit, and the server has not done it yet.
func (d *database) letCommitsWait() {
	d.t.Helper()
	d.execute(`
CREATE FUNCTION payments_wait() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON payments_transfers DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION payments_wait()`)
}

func (d *database) raise(statement string) *barrier {
	d.t.Helper()
	ctx := context.WithoutCancel(d.t.Context())
	tx, err := d.pool.Begin(ctx)
	testkit.Must(d.t, err)
	b := &barrier{d, tx, tx.Conn().PgConn().PID()}
	d.t.Cleanup(b.lift)
	if _, err := tx.Exec(ctx, statement); err != nil {
		d.t.Fatal(err)
	}
	return b
}

// lift releases the waiting process.
func (b *barrier) lift() {
	_ = b.tx.Rollback(context.WithoutCancel(b.database.t.Context())) // the server may have ended the transaction
}

const waitsForBarrier = ` FROM pg_stat_activity WHERE datname = current_database() AND $1::int = ANY (pg_blocking_pids(pid))`

// await returns the backend number of the process that waits at the barrier.
func (b *barrier) await() int {
	b.database.t.Helper()
	pid := 0
	testkit.Await(b.database.t, "for a backend to wait at the barrier", func() bool {
		err := b.database.pool.QueryRow(b.database.t.Context(), `SELECT pid`+waitsForBarrier, b.pid).Scan(&pid)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			b.database.t.Fatal(err)
		}
		return err == nil
	})
	return pid
}

// turnAway ends the waiting backend, so that a statement of a dead process takes no
// effect after its death.
func (b *barrier) turnAway() {
	b.database.t.Helper()
	testkit.Await(b.database.t, "for the barrier to be empty", func() bool {
		return ask[int](b.database, `SELECT count(pg_terminate_backend(pid))`+waitsForBarrier, b.pid) == 0
	})
}

// terminate ends a backend, and waits for its end.
func (d *database) terminate(backend int) {
	d.t.Helper()
	d.execute(`SELECT pg_terminate_backend($1)`, backend)
	testkit.Await(d.t, "for the backend to end", func() bool {
		return !ask[bool](d, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, backend)
	})
}

// beginUntil sends a request, and returns when it waits at the last of the stops.
func (f *fixture) beginUntil(i *instance, r request, stops ...string) (answers <-chan answer, stop *barrier, backend int) {
	f.t.Helper()
	stop = f.database.raise(stops[0])
	answers = i.begin(r)
	backend = stop.await()
	for _, next := range stops[1:] {
		before := stop
		stop = f.database.raise(next)
		before.lift()
		backend = stop.await()
	}
	return answers, stop, backend
}

// expectTransfers compares the keys of the transfers and the accounts: each transfer has
// moved 100 from alice to bob.
func (f *fixture) expectTransfers(keys ...string) {
	f.t.Helper()
	rows, err := f.database.pool.Query(f.t.Context(), `SELECT request_key FROM payments_transfers ORDER BY request_key`)
	testkit.Must(f.t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	testkit.Must(f.t, err)
	testkit.EqualSlices(f.t, got, keys, "there are transfers for")
	moved := int64(100 * len(keys))
	for name, want := range map[string]int64{"alice": 10_000 - moved, "bob": 10_000 + moved, "carol": 10_000} {
		testkit.Equal(f.t, ask[int64](f.database, `SELECT balance FROM payments_accounts WHERE name = $1`, name), want, "%s has", name)
	}
}
