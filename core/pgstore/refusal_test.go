package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/core/internal/testkit/proxy"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// writes lets the handler execute a statement in its transaction.
func writes(statement string) func(t *testing.T, r run) {
	return func(t *testing.T, r run) {
		_, err := r.tx.Exec(r.Context, statement)
		must(t, err)
	}
}

// asAnotherRole lets the handler become a role that has no rights on the records.
func asAnotherRole(set string) func(t *testing.T, r run) {
	return func(t *testing.T, r run) {
		role := "role_of_" + queryOne[string](t, r.pool, `SELECT current_database()`)
		execute(t, r.pool, `CREATE ROLE `+role)
		writes(set+` `+role)(t, r)
	}
}

// raisesAtCommit adds a deferred constraint trigger that fails, and fires it.
func raisesAtCommit(code string) func(t *testing.T, r run) {
	return writes(`
CREATE TABLE checked ();
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '` + code + `'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO checked DEFAULT VALUES`)
}

// Case 50: a transaction that cannot be committed is never a success. Where it was
// rolled back for certain the error says so.
func TestTransactionThatCannotBeCommitted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		spoil      func(t *testing.T, r run)
		rolledBack bool
	}{
		{"a deferred constraint fails", func(t *testing.T, r run) { r.pay(t, 7) }, true},
		{"a constraint trigger fails", raisesAtCommit("23514"), true},
		{"a serialization failure at commit", raisesAtCommit("40001"), true},
		{"the transaction is read only", writes(`SET TRANSACTION READ ONLY`), true},
		{"the role may not write records", asAnotherRole(`SET ROLE`), true},
		{"the transaction's role may not write records", asAnotherRole(`SET LOCAL ROLE`), true},
		{"a statement failed", func(t *testing.T, r run) {
			if _, err := r.tx.Exec(r.Context, `SELECT 1/0`); err == nil {
				t.Fatal("1/0 is no error")
			}
		}, true},
		{"the server has ended the connection", func(t *testing.T, r run) { r.terminate(t) }, true},
		{"the handler has closed the connection", func(t *testing.T, r run) {
			must(t, r.tx.Conn().Close(t.Context()))
		}, true},
		{"the handler has run out of time", func(t *testing.T, r run) {
			short, cancel := context.WithTimeout(r.Context, 20*time.Millisecond)
			defer cancel()
			if _, err := r.tx.Exec(short, `SELECT pg_sleep(60)`); err == nil {
				t.Fatal("a minute's sleep has ended within 20 ms")
			}
		}, true},
		{"the handler still reads", func(t *testing.T, r run) {
			rows, err := r.tx.Query(r.Context, `SELECT generate_series(1, 1000)`) //nolint:sqlclosecheck // that is the fault
			must(t, err)
			t.Cleanup(rows.Close) // too late
		}, true},
		// The store cannot distinguish this case from a COMMIT in SQL.
		{"the handler has rolled back in SQL", writes(`ROLLBACK`), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, nil)
			test.spoil(t, r)
			err := r.Commit(t.Context(), r.lease, result("paid"))
			if err == nil || errors.Is(err, storage.ErrLeaseLost) || errors.Is(err, storage.ErrStoreForbidden) {
				t.Errorf("Commit returned %v, want an error about this transaction", err)
			}
			if errors.Is(err, storage.ErrRolledBack) != test.rolledBack {
				t.Errorf("Commit returned %v, want ErrRolledBack: %t", err, test.rolledBack)
			}
			r.ends(t, false)
			must(t, r.store.Release(t.Context(), r.lease))
		})
	}
}

// Case 50: a handler may change its role, if it changes it back.
func TestHandlerResetsItsRole(t *testing.T) {
	t.Parallel()
	r := begin(t, nil)
	asAnotherRole(`SET LOCAL ROLE`)(t, r)
	writes(`RESET ROLE`)(t, r)
	must(t, r.Commit(t.Context(), r.lease, result("paid")))
	r.ends(t, true)
}

// Case 50: a commit whose reply is lost may have been carried out. That is never
// storage.ErrRolledBack.
func TestLostReplyToCommitIsNotARollback(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn, nil)
	for name, fault := range map[string]faultproxy.Fault{
		"lost":               faultproxy.LoseReplies(),
		"cut in the middle":  faultproxy.CutReplies(3),
		"not there in time":  faultproxy.Latency(5 * time.Second),
		"swallowed, as both": faultproxy.Blackhole(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := faultproxy.Start(t, addressOf(t, dsn))
			waits, cancel := context.WithCancel(t.Context())
			defer cancel()
			pool := connect(t, dsn, func(config *pgxpool.Config) {
				through(config, proxy)
				config.ConnConfig.Tracer = &commitTracer{func() {
					proxy.Set(fault)
					time.AfterFunc(time.Second, cancel) // not before, however slow the statements are
				}}
			})
			store := pgstore.New(pool)
			lease := win(t, store, claim(name))
			_, transaction, err := store.BeginTransaction(t.Context(), lease)
			must(t, err)
			err = transaction.Commit(waits, lease, result("paid"))
			proxy.Set(faultproxy.None())
			if err == nil || errors.Is(err, storage.ErrRolledBack) || errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("Commit returned %v, want an error that leaves the outcome open", err)
			}
		})
	}
}

// commitTracer calls before each COMMIT is sent.
type commitTracer struct{ before func() }

func (c *commitTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.EqualFold(data.SQL, "commit") {
		c.before()
	}
	return ctx
}

func (*commitTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
