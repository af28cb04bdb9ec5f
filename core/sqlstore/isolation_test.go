package sqlstore_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
)

// withSnapshots is a server of MariaDB that refuses to write a row that has changed since
// a transaction's first read, as MariaDB 11.6 and newer do by default.
func withSnapshots(t *testing.T) setUp {
	t.Helper()
	server, databases := mysqltest.MariaDB.Start(t, "innodb_snapshot_isolation=ON"), new(atomic.Int32)
	s := mariadb
	s.name += " with innodb_snapshot_isolation"
	s.dsn = func(testing.TB) string {
		name := fmt.Sprintf("snapshots_%d", databases.Add(1))
		server.Execute("CREATE DATABASE " + name)
		return strings.Replace(server.DSN(), "/mysql", "/"+name, 1)
	}
	return s
}

// at is the set-up with another isolation level of its sessions.
func (s setUp) at(level string) setUp {
	setting, dsn := map[string]string{"MySQL": "?transaction_isolation=", "PostgreSQL": "&default_transaction_isolation="}[s.name], s.dsn
	if setting == "" {
		setting = "?tx_isolation=" // of MariaDB
	}
	if s.database == "mysql" {
		level = "'" + strings.ReplaceAll(level, " ", "-") + "'"
	}
	s.dsn = func(t testing.TB) string { return dsn(t) + setting + url.PathEscape(level) }
	return s
}

// read lets the handler see its snapshot, if it has one.
func (h handler) read(t *testing.T) handler {
	t.Helper()
	var n int
	must(t, h.tx.QueryRowContext(h, `SELECT count(*) FROM payments`).Scan(&n))
	return h
}

// Case 94: a handler has read, and then its record changes, by a renewal, a step or a
// sweep. It commits under every isolation level.
func TestHandlerOutlivesARenewal(t *testing.T) {
	t.Parallel()
	changes := map[string]func(t *testing.T, h *handler){
		"renewed": func(t *testing.T, h *handler) { must(t, h.store.Extend(t.Context(), h.lease, time.Minute)) },
		"abandoned": func(t *testing.T, h *handler) {
			must(t, h.store.Extend(t.Context(), h.lease, 0))
		},
		"step": func(t *testing.T, h *handler) {
			h.lease.Steps = "charged"
			must(t, h.store.Extend(t.Context(), h.lease, time.Minute))
		},
		"lost": func(t *testing.T, h *handler) { execute(t, h.db, `DELETE FROM oncekey_records`) },
		"lost and restored": func(t *testing.T, h *handler) {
			execute(t, h.db, `DELETE FROM oncekey_records`)
			must(t, h.store.Extend(t.Context(), h.lease, time.Minute))
		},
		"expired": func(t *testing.T, h *handler) { execute(t, h.db, `UPDATE oncekey_records SET expires_at = 1`) },
	}
	over(t, []setUp{withSnapshots(t), mariadb, mysqlServer, postgresql}, func(t *testing.T, s setUp) {
		for _, level := range []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
			for change, record := range changes {
				t.Run(level+", "+change, func(t *testing.T) {
					t.Parallel()
					h := s.at(level).begin(t).read(t)
					record(t, &h)
					must(t, h.Commit(t.Context(), h.lease, result("paid")))
					h.ends(t, true)
				})
			}
		}
	})
}

// Case 94: the compare-and-set on the token stays. Another attempt's record is not
// overwritten, whatever the handler's snapshot shows.
func TestLostLeaseUnderASnapshot(t *testing.T) {
	t.Parallel()
	over(t, []setUp{withSnapshots(t), mysqlServer}, func(t *testing.T, s setUp) {
		for _, completed := range []bool{false, true} {
			h := s.begin(t).read(t)
			must(t, h.store.Extend(t.Context(), h.lease, 0))
			second := win(t, h.store, takeOver("key"))
			if completed {
				must(t, h.store.Complete(t.Context(), second, result("second")))
			}
			fails(t, "Commit", h.Commit(t.Context(), h.lease, result("paid")), storage.ErrLeaseLost)
			h.ends(t, false)
		}
	})
}

// The handler's own statements keep the server's setting, and lose no update.
func TestHandlersOwnSnapshotStays(t *testing.T) {
	t.Parallel()
	h := withSnapshots(t).begin(t).read(t)
	execute(t, h.db, `INSERT INTO payments VALUES (1)`)
	if _, err := h.tx.ExecContext(h, `UPDATE payments SET amount = amount + 1`); err == nil || !strings.Contains(err.Error(), "Error 1020") {
		t.Errorf("the handler's UPDATE returned %v, want error 1020", err)
	}
	must(t, h.Rollback(t.Context()))
}

// A server of MariaDB that does not know the setting gets the statement without it.
func TestServerThatDoesNotKnowTheSetting(t *testing.T) {
	t.Parallel()
	s := mariadb
	s.dialect = sqlstore.WithUnknownVariable()
	h := s.begin(t).read(t)
	must(t, h.store.Extend(t.Context(), h.lease, time.Minute))
	must(t, h.Commit(t.Context(), h.lease, result("paid")))
	h.ends(t, true)
}
