package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

// handler is a handler in a transaction that has paid.
type handler struct {
	setUp
	context.Context
	storage.Transaction
	tx    *sql.Tx
	lease storage.Lease
	store *sqlstore.Store
	db    *sql.DB
}

// begin claims a key and pays in a transaction, in a database with a table payments.
func (s setUp) begin(t *testing.T) handler {
	t.Helper()
	store, db := s.open(t)
	execute(t, db, `CREATE TABLE payments (amount int)`)
	return s.pay(t, store, db)
}

// pay claims the key, and pays in a transaction.
func (s setUp) pay(t *testing.T, store *sqlstore.Store, db *sql.DB) handler {
	t.Helper()
	h := handler{setUp: s, store: store, db: db, lease: win(t, store, claim("key"))}
	var err error
	h.Context, h.Transaction, err = store.BeginTransaction(t.Context(), h.lease)
	must(t, err)
	h.tx, err = sqlstore.Tx(h.Context)
	must(t, err)
	_, err = h.tx.ExecContext(h, `INSERT INTO payments VALUES (7)`)
	must(t, err)
	return h
}

// connection is the number of the transaction's connection at the server.
func (h handler) connection(t *testing.T) (id int) {
	t.Helper()
	query := `SELECT connection_id()`
	if h.database == "postgresql" {
		query = `SELECT pg_backend_pid()`
	}
	must(t, h.tx.QueryRowContext(h, query).Scan(&id))
	return id
}

// cut ends the transaction's connection at the server.
func (h handler) cut(t *testing.T, connection int) {
	t.Helper()
	if h.database == "postgresql" {
		queryOne[bool](t, h.db, `SELECT pg_terminate_backend($1)`, connection)
		eventually(t, func() bool {
			return queryOne[int](t, h.db, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, connection) == 0
		})
		return
	}
	eventually(t, func() bool { // until the server knows no such connection
		_, err := h.db.ExecContext(t.Context(), fmt.Sprintf(`KILL CONNECTION %d`, connection))
		return err != nil && strings.Contains(err.Error(), "Unknown thread id")
	})
}

// ends expects both the payment and the response, or neither.
func (h handler) ends(t *testing.T, committed bool) {
	t.Helper()
	testkit.Equal(t, h.both(t), committed, "whether the payment and the response are there")
}

// both expects the payment and the response, or neither, and returns whether they are
// there.
func (h handler) both(t *testing.T) bool {
	t.Helper()
	eventually(t, func() bool { return h.db.Stats().InUse == 0 })
	payments := queryOne[int](t, h.db, `SELECT count(*) FROM payments`)
	record, err := h.store.Lookup(t.Context(), "key")
	must(t, err)
	stored := record != nil && record.State == storage.Completed && string(record.Body) == "paid"
	if stored != (payments == 1) || payments > 1 {
		t.Errorf("there are %d payments, and the record is %+v: want both or neither", payments, record)
	}
	return stored
}

// Case 19: the transaction's connection is cut, and its end is known for certain unless
// the COMMIT was sent.
func TestConnectionCutInATransaction(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		h := s.begin(t)
		h.cut(t, h.connection(t))
		fails(t, "Commit", h.Commit(t.Context(), h.lease, result("paid")), storage.ErrRolledBack)
		h.ends(t, false)
		must(t, h.store.Release(t.Context(), h.lease))
		win(t, h.store, claim("key"))
	})
}

// Handlers hold all connections of the pool. Their commits need no other one, also the first of a process.
func TestCommitNeedsNoOtherConnection(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		execute(t, db, `CREATE TABLE payments (amount int)`)
		db.SetMaxOpenConns(1)
		h := s.pay(t, store, db)
		must(t, limited(t, 10*time.Second, func(ctx context.Context) error {
			return h.Commit(ctx, h.lease, result("paid"))
		}))
		h.ends(t, true)
	})
}

// Case 13: the server commits, and its reply is lost. The record tells.
func TestConfirmationOfACommitIsLost(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		direct := s.dsn(t)
		address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(direct)
		proxy := faultproxy.Start(t, address)
		s.dsn = func(testing.TB) string { return strings.Replace(direct, address, proxy.Addr(), 1) }
		h := s.begin(t)
		must(t, h.store.Extend(t.Context(), h.lease, time.Minute)) // by another connection
		committed := sqlstore.BeforeCommit(h.Transaction, func() { proxy.Set(faultproxy.LoseReplies()) })
		err := limited(t, time.Minute, func(ctx context.Context) error { return committed.Commit(ctx, h.lease, result("paid")) })
		if err == nil || errors.Is(err, storage.ErrRolledBack) || errors.Is(err, storage.ErrLeaseLost) {
			t.Errorf("Commit returned %v, want an error of an unknown end", err)
		}
		h.db = s.connect(t, direct)
		h.store = sqlstore.New(h.db, s.dialect)
		eventually(t, func() bool { return queryOne[int](t, h.db, `SELECT count(*) FROM payments`) == 1 })
		h.ends(t, true)
		fails(t, "Release", h.store.Release(t.Context(), h.lease), storage.ErrLeaseLost)
	})
}

// A COMMIT that the network swallows keeps no connection of the pool, and so no locks at the
// server once it sees the connection end. (A COMMIT of go-sql-driver/mysql heeds no context.)
func TestSwallowedCommit(t *testing.T) {
	t.Parallel()
	s := postgresql
	direct := s.dsn(t)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(direct)
	proxy := faultproxy.Start(t, address)
	s.dsn = func(testing.TB) string { return strings.Replace(direct, address, proxy.Addr(), 1) }
	h := s.begin(t)
	committed := sqlstore.BeforeCommit(h.Transaction, func() { proxy.Set(faultproxy.Blackhole()) })
	err := limited(t, time.Second, func(ctx context.Context) error { return committed.Commit(ctx, h.lease, result("paid")) })
	fails(t, "Commit", err, context.DeadlineExceeded)
	eventually(t, func() bool { return h.db.Stats().InUse == 0 })
}

// Case 19: the server is killed at each point of a transaction. After its restart both
// writes are there, or neither.
func TestServerKilledInATransaction(t *testing.T) {
	t.Parallel()
	for base, settings := range map[*setUp][]string{
		&postgresql:  nil,
		&mysqlServer: {"log_bin=log"}, // the default of MySQL
		&mariadb:     nil,
	} {
		t.Run(base.name, func(t *testing.T) {
			t.Parallel()
			s, server := *base, base.start(t, settings...)
			s.dsn = func(testing.TB) string { return server.DSN() }
			store, db := s.open(t)
			execute(t, db, `CREATE TABLE payments (amount int)`)
			for _, point := range []string{"after the handler", "before COMMIT", "after COMMIT"} {
				h := s.pay(t, store, db)
				committing := h.Transaction
				switch point {
				case "after the handler":
					server.Kill()
				case "before COMMIT":
					committing = sqlstore.BeforeCommit(h.Transaction, server.Kill)
				}
				err := limited(t, time.Minute, func(ctx context.Context) error { return committing.Commit(ctx, h.lease, result("paid")) })
				if point == "after COMMIT" {
					server.Kill()
				}
				server.Restart()
				eventually(t, func() bool { return db.PingContext(t.Context()) == nil })
				if stored := h.both(t); stored != (point == "after COMMIT") || stored != (err == nil) {
					t.Errorf("killed %s: Commit returned %v, and the payment is there: %t", point, err, stored)
				}
				if err == nil {
					continue
				}
				if point == "after the handler" && !errors.Is(err, storage.ErrRolledBack) {
					t.Errorf("killed %s: Commit returned %v, want ErrRolledBack", point, err)
				}
				must(t, store.Release(t.Context(), h.lease))
			}
		})
	}
}

// A take-over, and a release, that meet a Commit wait for it, and then find its end.
func TestOthersDuringCommit(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		h := s.begin(t)
		must(t, h.store.Extend(t.Context(), h.lease, 0)) // abandoned
		found, released := make(chan *storage.Record, 1), make(chan error, 1)
		committing := sqlstore.BeforeCommit(h.Transaction, func() { // the record is written, and locked
			go func() {
				_, record, err := h.store.Acquire(t.Context(), takeOver("key"))
				if err != nil {
					t.Error(err)
				}
				found <- record
			}()
			go func() { released <- h.store.Release(t.Context(), h.lease) }()
			eventually(t, func() bool { return h.db.Stats().InUse == 3 })
		})
		must(t, committing.Commit(t.Context(), h.lease, result("paid")))
		if record := <-found; record == nil || string(record.Body) != "paid" {
			t.Errorf("the take-over found %+v, want the response", record)
		}
		fails(t, "Release", <-released, storage.ErrLeaseLost)
		h.ends(t, true)
	})
}

func TestNoTransaction(t *testing.T) {
	t.Parallel()
	store, _ := sqliteMemory.open(t)
	if storage.Transacts(store) {
		t.Error("SQLite claims to have transactions for handlers")
	}
	if _, _, err := store.BeginTransaction(t.Context(), storage.Lease{}); err == nil {
		t.Error("BeginTransaction over SQLite returned nil, want an error")
	}
	h := postgresql.begin(t)
	for name, ctx := range map[string]context.Context{"no handler": t.Context(), "a step": storage.WithoutTransaction(h.Context)} {
		tx, err := sqlstore.Tx(ctx)
		if fails(t, "Tx in "+name, err, sqlstore.ErrNoTransaction); tx != nil {
			t.Errorf("in %s Tx returned %v, want none", name, tx)
		}
	}
	must(t, h.Rollback(t.Context()))
}

// A driver serves no other statement beside open rows, which the handler should have closed.
func TestRowsThatAreLeftOpen(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		h := s.begin(t)
		rows, err := h.tx.QueryContext(h, `SELECT amount FROM payments`)
		must(t, err)
		defer rows.Close()
		must(t, rows.Err())
		reason := "has left rows of a query open"
		if s.driver == libpq.driver {
			reason = "already a query being processed"
		}
		fails(t, "Commit", h.Commit(t.Context(), h.lease, result("paid")), storage.ErrRolledBack, reason)
		h.ends(t, false)
	})
}
