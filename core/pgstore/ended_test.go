package pgstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/storage"
)

// Case 96: a handler that ends the transaction by its own SQL has no response, also where
// it has begun another one, and its connection does not go back to the pool (Case 98).
func TestHandlerEndsItsTransaction(t *testing.T) {
	t.Parallel()
	for statements, kept := range map[string]int{ // payments that the handler has committed itself
		`ROLLBACK`:                           0,
		`COMMIT`:                             1,
		`ROLLBACK AND CHAIN`:                 0,
		`COMMIT AND CHAIN`:                   1,
		`ROLLBACK; BEGIN`:                    0,
		`COMMIT; BEGIN`:                      1,
		`COMMIT; BEGIN; SAVEPOINT oncekey`:   1,
		`ABORT; START TRANSACTION`:           0,
		`SAVEPOINT before; COMMIT AND CHAIN`: 1,
	} {
		t.Run(statements, func(t *testing.T) {
			t.Parallel()
			r := begin(t, func(config *pgxpool.Config) { config.MaxConns = 2 })
			backend := r.tx.Conn().PgConn().PID()
			for statement := range strings.SplitSeq(statements, "; ") {
				writes(statement)(t, r)
			}
			err := r.Commit(t.Context(), r.lease, result("paid"))
			if !errors.Is(err, storage.ErrTransactionEnded) || errors.Is(err, storage.ErrRolledBack) || errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("Commit returned %v, want ErrTransactionEnded", err)
			}
			if payments := queryOne[int](t, r.pool, `SELECT count(*) FROM payments`); payments != kept {
				t.Errorf("there are %d payments, want %d", payments, kept)
			}
			if record := find(t, r.store, claim("key")); record.State != storage.InProgress {
				t.Errorf("the record is %+v, want it in progress", record)
			}
			eventually(t, func() bool { return r.pool.Stat().AcquiredConns() == 0 })
			eventually(t, func() bool {
				return queryOne[int](t, r.pool, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, backend) == 0
			})
			must(t, r.Rollback(t.Context()))
			must(t, r.store.Release(t.Context(), r.lease))
		})
	}
}

// A handler's savepoints, and settings of its own, do not end the transaction.
func TestHandlerKeepsItsTransaction(t *testing.T) {
	t.Parallel()
	r := begin(t, nil)
	for _, statement := range []string{
		`SAVEPOINT a`, `SET LOCAL work_mem = '1MB'`, `ROLLBACK TO a`, `RELEASE a`, `SET LOCAL lock_timeout = '1s'`, `BEGIN`, // a warning only
		`SET CONSTRAINTS ALL DEFERRED`, `DISCARD PLANS`,
	} {
		writes(statement)(t, r)
	}
	must(t, r.store.Extend(t.Context(), r.lease, time.Minute))
	must(t, r.Commit(t.Context(), r.lease, result("paid")))
	r.ends(t, true)
}

// Case 94: at the levels above READ COMMITTED PostgreSQL refuses to write a row that has
// changed since the transaction's snapshot. The handler that has chosen such a level is
// rolled back for certain where its lease was renewed meanwhile, and commits otherwise.
func TestIsolationOfTheHandlersChoice(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		for _, renewed := range []bool{false, true} {
			name := level
			if renewed {
				name += ", renewed"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := beginWith(t, nil, `SET TRANSACTION ISOLATION LEVEL `+level)
				if renewed {
					must(t, r.store.Extend(t.Context(), r.lease, time.Minute))
				}
				err := r.Commit(t.Context(), r.lease, result("paid"))
				if errors.Is(err, storage.ErrRolledBack) != renewed || (err == nil) == renewed {
					t.Errorf("Commit returned %v, want ErrRolledBack: %t", err, renewed)
				}
				r.ends(t, !renewed)
			})
		}
	}
}
