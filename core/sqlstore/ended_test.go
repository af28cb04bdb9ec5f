package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 96: a handler that ends its transaction by itself has committed without the response,
// or may have, also where it has begun another one. The record must not be written outside
// of the transaction, and the connection does not go back to the pool (Case 98).
func TestHandlerEndsItsTransaction(t *testing.T) {
	t.Parallel()
	ends := map[string]int{ // the payments that the handler has committed itself
		`COMMIT`: 1, `ROLLBACK`: 0, `COMMIT AND CHAIN`: 1, `ROLLBACK AND CHAIN`: 0, `COMMIT; BEGIN`: 1, `ROLLBACK; BEGIN`: 0,
	}
	inMySQL := maps.Clone(ends)
	maps.Copy(inMySQL, map[string]int{ // definitions and others commit implicitly
		`CREATE TABLE more (n int)`: 1, `BEGIN`: 1, `LOCK TABLES payments WRITE`: 1, `LOCK TABLES payments WRITE; UNLOCK TABLES`: 1,
		`SET autocommit = 0; SET autocommit = 1`: 1,
	})
	failed := map[string]int{`COMMIT AND CHAIN; SELECT * FROM missing`: 1} // its second transaction has failed
	inPostgreSQL := maps.Clone(ends)
	maps.Copy(inPostgreSQL, failed)
	over(t, servers, func(t *testing.T, s setUp) {
		statements := inPostgreSQL
		if s.database == "mysql" {
			statements = inMySQL
		}
		for text, kept := range statements {
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				h := s.begin(t)
				connection := h.connection(t)
				for statement := range strings.SplitSeq(text, "; ") {
					if _, err := h.tx.ExecContext(h, statement); err != nil && !strings.Contains(statement, "missing") {
						t.Fatal(err)
					}
				}
				h.endedEarly(t)
				eventually(t, func() bool { return !h.atServer(t, connection) })
				counts(t, h.db, kept, `SELECT count(*) FROM payments`)
			})
		}
		testkit.Each(t, map[string]func(h handler) error{
			"Commit":   func(h handler) error { return h.tx.Commit() },
			"Rollback": func(h handler) error { return h.tx.Rollback() },
		}, func(t *testing.T, end func(h handler) error) {
			h := s.begin(t)
			must(t, end(h))
			h.endedEarly(t)
		})
	})
}

// endedEarly expects Commit to notice that the handler has ended the transaction.
func (h handler) endedEarly(t *testing.T) {
	t.Helper()
	err := h.Commit(t.Context(), h.lease, result("paid"))
	if !errors.Is(err, storage.ErrTransactionEnded) || errors.Is(err, storage.ErrRolledBack) || errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("Commit returned %v, want ErrTransactionEnded", err)
	}
	testkit.Equal(t, find(t, h.store, claim("key")).State, storage.InProgress, "the record's state")
}

// atServer reports whether the server has a connection with this number.
func (h handler) atServer(t *testing.T, connection int) bool {
	t.Helper()
	query := `SELECT count(*) FROM information_schema.processlist WHERE id = %d`
	if h.database == "postgresql" {
		query = `SELECT count(*) FROM pg_stat_activity WHERE pid = %d`
	}
	return count(t, h.db, fmt.Sprintf(query, connection)) != 0
}

// Case 98: a handler that has failed may have locked tables too. The locks end with its
// run, and other requests find the table.
func TestLockedTablesAreUnlocked(t *testing.T) {
	t.Parallel()
	over(t, ofMySQL, func(t *testing.T, s setUp) {
		for name, end := range map[string]func(h handler) error{
			"commit":   func(h handler) error { return h.Commit(t.Context(), h.lease, result("paid")) },
			"rollback": func(h handler) error { return h.Rollback(t.Context()) },
			"rollback without time": func(h handler) error {
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				return h.Rollback(ended)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := s.begin(t)
				_, err := h.tx.ExecContext(h, `LOCK TABLES payments WRITE`)
				must(t, err)
				if err := end(h); err != nil && name != "commit" {
					t.Errorf("the rollback returned %v", err)
				}
				must(t, limited(t, time.Minute, func(ctx context.Context) error {
					_, err := h.db.ExecContext(ctx, `INSERT INTO payments VALUES (8)`)
					return err
				}))
				finish(t, h.store, "another key")
			})
		}
	})
}

// A rolled back handler without such locks keeps its connection.
func TestConnectionOfARollbackIsKept(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		h := s.begin(t)
		connection := h.connection(t)
		must(t, h.Rollback(t.Context()))
		eventually(t, func() bool { return h.db.Stats().InUse == 0 })
		if !h.atServer(t, connection) {
			t.Error("the connection is closed, want it in the pool")
		}
	})
}
