package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
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

// begin claims key and pays in a transaction, after other statements of the handler, in a
// database with a table payments.
func begin(t *testing.T, change func(*pgxpool.Config), first ...string) run {
	t.Helper()
	store, pool := open(t, change)
	execute(t, pool, `CREATE TABLE payments (amount int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	r := pays(t, store, "key", first...)
	r.pool = pool
	return r
}

// pays claims a key, and pays in a transaction.
func pays(t *testing.T, store *pgstore.Store, key string, first ...string) run {
	t.Helper()
	r := run{store: store, lease: win(t, store, claim(key))}
	var err error
	r.Context, r.Transaction, err = store.BeginTransaction(t.Context(), r.lease)
	must(t, err)
	r.tx, err = pgstore.Tx(r.Context)
	must(t, err)
	for _, statement := range append(first, `INSERT INTO payments VALUES (7)`) {
		r.writes(t, statement)
	}
	return r
}

// writes lets the handler execute a statement in its transaction.
func (r run) writes(t *testing.T, statement string) {
	t.Helper()
	_, err := r.tx.Exec(r.Context, statement)
	must(t, err)
}

// terminate ends the transaction's backend.
func (r run) terminate(t *testing.T) {
	t.Helper()
	backend := r.tx.Conn().PgConn().PID()
	execute(t, r.pool, `SELECT pg_terminate_backend($1)`, backend)
	awaitEnd(t, r.pool, backend)
}

// ends expects both the payment and the response, or neither, and the connection to
// be back in the pool.
func (r run) ends(t *testing.T, committed bool) {
	t.Helper()
	eventually(t, func() bool { return r.pool.Stat().AcquiredConns() == 0 })
	counts(t, r.pool, map[bool]int{true: 1}[committed], `SELECT count(*) FROM payments`)
	record, err := r.store.Lookup(t.Context(), "key")
	must(t, err)
	if answered := record != nil && record.State == storage.Completed && string(record.Body) == "paid"; answered != committed {
		t.Errorf("the record is %+v, want the response stored: %t", record, committed)
	}
	must(t, r.Rollback(t.Context())) // once more
	fails(t, "Commit once more", r.Commit(t.Context(), r.lease, result("again")), nil)
}

// The handler's context may have ended: its rows are unlocked, and the connection is
// kept. A connection that is broken is an error.
func TestRollback(t *testing.T) {
	t.Parallel()
	r := begin(t, connections(1))
	backend := r.tx.Conn().PgConn().PID()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, r.Rollback(ended))
	r.ends(t, false)
	testkit.Equal(t, queryOne[uint32](t, r.pool, `SELECT pg_backend_pid()`), backend, "the connection's backend")
	r = begin(t, connections(2))
	r.terminate(t)
	fails(t, "Rollback", r.Rollback(t.Context()), nil)
	r.ends(t, false)
}

// A handler's savepoints, its settings and a role that it resets (case 50) do not end the
// transaction, and its own Commit and Rollback are refused.
func TestHandlerKeepsItsTransaction(t *testing.T) {
	t.Parallel()
	r := begin(t, connections(8))
	for _, statement := range []string{
		`SAVEPOINT a`, `SET LOCAL work_mem = '1MB'`, `ROLLBACK TO a`, `RELEASE a`, `SET LOCAL lock_timeout = '1s'`, `BEGIN`, // a warning only
		`SET CONSTRAINTS ALL DEFERRED`, `DISCARD PLANS`, `CREATE ROLE other`, `SET LOCAL ROLE other`, `RESET ROLE`, `DROP ROLE other`,
	} {
		r.writes(t, statement)
	}
	fails(t, "Commit", r.tx.Commit(t.Context()), pgstore.ErrNotYours)
	fails(t, "Rollback", r.tx.Rollback(t.Context()), pgstore.ErrNotYours)
	savepoint, err := r.tx.Begin(t.Context())
	must(t, err)
	_, err = savepoint.Exec(t.Context(), `INSERT INTO payments VALUES (8)`)
	must(t, err)
	must(t, savepoint.Rollback(t.Context()))
	_, err = pgstore.Tx(t.Context())
	fails(t, "Tx", err, pgstore.ErrNoTransaction)
	_, err = pgstore.Tx(storage.WithoutTransaction(r.Context)) // as in a step
	fails(t, "Tx in a step", err, pgstore.ErrNoTransaction)
	must(t, r.store.Extend(t.Context(), r.lease, time.Minute))
	must(t, r.Commit(t.Context(), r.lease, result("paid")))
	r.ends(t, true)
}

// Case 96: a handler that ends the transaction by its own SQL has no response, also where
// it has begun another one, and its connection does not go back to the pool (Case 98).
func TestHandlerEndsItsTransaction(t *testing.T) {
	t.Parallel()
	for statements, kept := range map[string]int{ // payments that the handler has committed itself
		`ROLLBACK`: 0, `COMMIT`: 1, `ROLLBACK AND CHAIN`: 0, `COMMIT AND CHAIN`: 1, `ROLLBACK; BEGIN`: 0, `COMMIT; BEGIN`: 1,
		`COMMIT; BEGIN; SAVEPOINT oncekey`: 1, `ABORT; START TRANSACTION`: 0, `SAVEPOINT before; COMMIT AND CHAIN`: 1,
	} {
		t.Run(statements, func(t *testing.T) {
			t.Parallel()
			r := begin(t, connections(2))
			backend := r.tx.Conn().PgConn().PID()
			for statement := range strings.SplitSeq(statements, "; ") {
				r.writes(t, statement)
			}
			err := r.Commit(t.Context(), r.lease, result("paid"))
			if fails(t, "Commit", err, storage.ErrTransactionEnded); errors.Is(err, storage.ErrRolledBack) || errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("Commit returned %v, want ErrTransactionEnded alone", err)
			}
			counts(t, r.pool, kept, `SELECT count(*) FROM payments`)
			isRunning(t, r.store, "key")
			eventually(t, func() bool { return r.pool.Stat().AcquiredConns() == 0 })
			awaitEnd(t, r.pool, backend)
			must(t, r.Rollback(t.Context()))
			must(t, r.store.Release(t.Context(), r.lease))
		})
	}
}

// Case 94: at the levels above READ COMMITTED PostgreSQL refuses to write a row that has
// changed since the transaction's snapshot. The handler that has chosen such a level is
// rolled back for certain where its lease was renewed meanwhile, and commits otherwise. The
// database's default is not its choice.
func TestIsolation(t *testing.T) {
	t.Parallel()
	serializable := func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	}
	for _, test := range []struct {
		chosen              string
		renewed, rolledBack bool
	}{
		{``, true, false},
		{`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, false, false},
		{`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, true, true},
		{`SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`, false, false},
		{`SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`, true, true},
	} {
		r := begin(t, serializable, test.chosen)
		if test.renewed {
			must(t, r.store.Extend(t.Context(), r.lease, time.Minute))
		}
		err := r.Commit(t.Context(), r.lease, result("paid"))
		if errors.Is(err, storage.ErrRolledBack) != test.rolledBack || (err == nil) == test.rolledBack {
			t.Errorf("%s: Commit returned %v, want ErrRolledBack: %t", test.chosen, err, test.rolledBack)
		}
		r.ends(t, !test.rolledBack)
	}
}

// writes lets the handler execute a statement in its transaction.
func writes(statement string) func(t *testing.T, r run) {
	return func(t *testing.T, r run) { r.writes(t, statement) }
}

// Case 50: a transaction that cannot be committed is never a success. Where it was rolled
// back for certain the error says so. Case 95: a response that cannot be stored is rolled back
// with the handler's writes, and a constraint of the handler's own tables is no refusal of it.
func TestTransactionThatCannotBeCommitted(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, r run){
		"a deferred constraint fails": writes(`INSERT INTO payments VALUES (7)`),
		"a serialization failure at commit": writes(raising("40001") + `; CREATE TABLE checked ();
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO checked DEFAULT VALUES`),
		"the transaction is read only":   writes(`SET TRANSACTION READ ONLY`),
		"the role may not write records": writes(`CREATE ROLE poor; SET LOCAL ROLE poor`),
		"not in the search_path":         writes(`CREATE SCHEMA tenant; SET LOCAL search_path = tenant`),
		"a statement failed": func(t *testing.T, r run) {
			_, err := r.tx.Exec(r.Context, `SELECT 1/0`)
			fails(t, "1/0", err, nil)
		},
		"the server has ended the connection":   func(t *testing.T, r run) { r.terminate(t) },
		"the handler has closed the connection": func(t *testing.T, r run) { must(t, r.tx.Conn().Close(t.Context())) },
		"the handler has run out of time": func(t *testing.T, r run) {
			fails(t, "a minute's sleep", limited(t, 20*time.Millisecond, func(short context.Context) error {
				_, err := r.tx.Exec(short, `SELECT pg_sleep(60)`)
				return err
			}), nil)
		},
		"the handler still reads": func(t *testing.T, r run) {
			rows, err := r.tx.Query(r.Context, `SELECT generate_series(1, 1000)`) //nolint:sqlclosecheck // that is the fault
			must(t, err)
			t.Cleanup(rows.Close) // too late
		},
		refused: func(t *testing.T, r run) {
			execute(t, r.pool, `ALTER TABLE oncekey_records ADD CHECK (octet_length(body) < length('paid')) NOT VALID`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, connections(8))
			spoil(t, r)
			err := r.Commit(t.Context(), r.lease, result("paid"))
			fails(t, "Commit", err, storage.ErrRolledBack)
			if errors.Is(err, storage.ErrLeaseLost) || errors.Is(err, storage.ErrStoreForbidden) || errors.Is(err, storage.ErrNotStorable) != (name == refused) {
				t.Errorf("Commit returned %v, want an error about this transaction", err)
			}
			if name == "not in the search_path" {
				fails(t, "Commit", err, nil, name)
			}
			r.ends(t, false)
			must(t, r.store.Release(t.Context(), r.lease))
		})
	}
}

const refused = "the response cannot be stored"

// Case 50: a commit whose reply is lost may have been carried out. That is never
// storage.ErrRolledBack.
func TestLostReplyToCommitIsNotARollback(t *testing.T) {
	t.Parallel()
	_, direct := open(t)
	dsn := direct.Config().ConnString()
	execute(t, direct, `CREATE TABLE payments (amount int)`)
	for name, fault := range map[string]faultproxy.Fault{
		"lost":               faultproxy.LoseReplies(),
		"cut in the middle":  faultproxy.CutReplies(3),
		"not there in time":  faultproxy.Latency(5 * time.Second),
		"swallowed, as both": faultproxy.Blackhole(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, through := proxied(t, dsn)
			waits, cancel := context.WithCancel(t.Context())
			defer cancel()
			tracer := &queryTracer{before: func(data pgx.TraceQueryStartData) {
				if strings.EqualFold(data.SQL, "commit") {
					proxy.Set(fault)
					time.AfterFunc(time.Second, cancel) // not before, however slow the statements are
				}
			}}
			r := pays(t, pgstore.New(connect(t, dsn, through, tracer.traces)), name)
			err := r.Commit(waits, r.lease, result("paid"))
			proxy.Set(faultproxy.None())
			if err == nil || errors.Is(err, storage.ErrRolledBack) || errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("Commit returned %v, want an error that leaves the outcome open", err)
			}
		})
	}
}
