package endtoend

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
)

// database is the tests' own access to the processes' database.
type database struct {
	t      *testing.T
	driver string
	dsn    string
	db     *sql.DB
}

// openDatabase opens a connection for each statement, because a server that was killed has ended those before.
func openDatabase(t *testing.T, driver, dsn string) *database {
	t.Helper()
	d := &database{t, driver, dsn, service.SQL(t, driver, dsn)}
	d.db.SetMaxIdleConns(0)
	return d
}

func (d *database) execute(statement string, arguments ...any) {
	d.t.Helper()
	if _, err := d.db.ExecContext(d.t.Context(), statement, arguments...); err != nil {
		d.t.Fatal(err)
	}
}

// ask returns the only value that a query finds.
func ask[T any](d *database, query string, arguments ...any) T {
	d.t.Helper()
	var value T
	testkit.Must(d.t, d.db.QueryRowContext(d.t.Context(), query, arguments...).Scan(&value))
	return value
}

// texts returns the first column of the rows that a query finds.
func (d *database) texts(query string) (all []string) {
	d.t.Helper()
	rows, err := d.db.QueryContext(d.t.Context(), query)
	testkit.Must(d.t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		testkit.Must(d.t, rows.Scan(&text))
		all = append(all, text)
	}
	testkit.Must(d.t, rows.Err())
	return all
}

// barrier is a transaction of the test whose locks make a process wait.
type barrier struct {
	database *database
	stop     stop
	tx       *sql.Tx
	pid      int // in PostgreSQL
}

// stop is a place where a request can be made to wait.
type stop struct {
	lock    string // by the barrier
	waiting string // in MySQL, a part of the process's statement, from its first 100 bytes
}

// The places where a transfer can be made to wait, in their order.
var (
	beforeItsWrites  = stop{lock: `SELECT FROM payments_accounts WHERE name = 'alice' FOR UPDATE`}
	betweenItsWrites = stop{lock: `SELECT FROM payments_accounts WHERE name = 'bob' FOR UPDATE`}
	atItsLastWrite   = stop{lock: `LOCK TABLE payments_transfers IN SHARE MODE`}
	atItsRecord      = stop{lock: `SELECT FROM oncekey_records WHERE state = 'in_progress' FOR UPDATE`} // the record must exist
	inItsCommit      = stop{lock: `SELECT pg_advisory_xact_lock(1)`}                                    // see letCommitsWait

	// The place where a payment can be made to wait.
	atItsCharge = stop{lock: `LOCK TABLE payments_ledger IN SHARE MODE`}
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

func (d *database) raise(at stop) *barrier {
	d.t.Helper()
	tx, err := d.db.BeginTx(context.WithoutCancel(d.t.Context()), nil)
	testkit.Must(d.t, err)
	b := &barrier{database: d, stop: at, tx: tx}
	d.t.Cleanup(b.lift)
	if d.driver == "pgx" {
		testkit.Must(d.t, tx.QueryRowContext(d.t.Context(), `SELECT pg_backend_pid()`).Scan(&b.pid))
	}
	rows, err := tx.QueryContext(d.t.Context(), at.lock)
	testkit.Must(d.t, err)
	defer rows.Close()
	for rows.Next() { // locks each row
	}
	testkit.Must(d.t, rows.Err())
	return b
}

// lift releases the waiting process.
func (b *barrier) lift() {
	_ = b.tx.Rollback() // the server may have ended the transaction
}

const waitsForBarrier = ` FROM pg_stat_activity WHERE datname = current_database() AND $1::int = ANY (pg_blocking_pids(pid))`

// await returns the backend number of the process that waits at the barrier. One that is seen twice waits.
func (b *barrier) await() int {
	b.database.t.Helper()
	before := 0
	testkit.Await(b.database.t, "for a statement to wait at the barrier", func() bool {
		pid := b.waits()
		seen := pid != 0 && pid == before
		before = pid
		return seen
	})
	return before
}

// waits returns the backend number of a process that seems to wait, or 0.
func (b *barrier) waits() int {
	b.database.t.Helper()
	if b.database.driver != "pgx" {
		return b.database.running(b.stop.waiting)
	}
	return ask[int](b.database, `SELECT coalesce(max(pid), 0)`+waitsForBarrier, b.pid)
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
func (f *fixture) beginUntil(i *instance, r request, stops ...stop) (answers <-chan answer, stop *barrier, backend int) {
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
	got := f.database.texts(`SELECT request_key FROM payments_transfers ORDER BY request_key`)
	testkit.EqualSlices(f.t, got, keys, "there are transfers for")
	moved := int64(100 * len(keys))
	for name, want := range map[string]int64{"alice": 10_000 - moved, "bob": 10_000 + moved, "carol": 10_000} {
		testkit.Equal(f.t, ask[int64](f.database, `SELECT balance FROM payments_accounts WHERE name = '`+name+`'`), want, "%s has", name)
	}
}
