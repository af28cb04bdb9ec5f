package handlertest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// database is a table in memory, whose driver has the methods of an old or of a new one.
type database struct {
	old bool

	mu   sync.Mutex
	rows []string
	open int // results and transactions that are not closed
}

func (d *database) opened(change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open += change
}

// result is the result of a query.
func (d *database) result() driver.Rows {
	d.opened(1)
	return &count{d, false}
}

func (d *database) Count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.rows)
}

// insert adds the operation once, or always if it is empty.
func (d *database) insert(operations ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, operation := range operations {
		if operation == "" || !slices.Contains(d.rows, operation) {
			d.rows = append(d.rows, operation)
		}
	}
}

func (d *database) Driver() driver.Driver { return nil }

func (d *database) Connect(context.Context) (driver.Conn, error) {
	if d.old {
		return &oldConn{database: d}, nil
	}
	return &newConn{oldConn{database: d}}, nil
}

// oldConn is a connection of a driver before contexts.
type oldConn struct {
	database *database
	pending  []string
	inTx     bool
}

func (c *oldConn) Close() error { return nil }

func (c *oldConn) Begin() (driver.Tx, error) {
	c.pending, c.inTx = nil, true
	c.database.opened(1)
	return c, nil
}

func (c *oldConn) Commit() error {
	c.database.insert(c.pending...)
	c.inTx = false
	c.database.opened(-1)
	return nil
}

func (c *oldConn) Rollback() error {
	c.pending, c.inTx = nil, false
	c.database.opened(-1)
	return nil
}

func (c *oldConn) Prepare(statement string) (driver.Stmt, error) {
	return &oldStmt{c, strings.Count(statement, "?")}, nil
}

func (c *oldConn) insert(args []driver.Value) (driver.Result, error) {
	operation := args[0].(string)
	if c.inTx {
		c.pending = append(c.pending, operation)
	} else {
		c.database.insert(operation)
	}
	return driver.RowsAffected(1), nil
}

type oldStmt struct {
	conn   *oldConn
	inputs int
}

func (s *oldStmt) Close() error                                    { return nil }
func (s *oldStmt) NumInput() int                                   { return s.inputs }
func (s *oldStmt) Exec(args []driver.Value) (driver.Result, error) { return s.conn.insert(args) }
func (s *oldStmt) Query([]driver.Value) (driver.Rows, error) {
	return s.conn.database.result(), nil
}
func (s *oldStmt) ColumnConverter(int) driver.ValueConverter { return driver.String }

// newConn has every optional method that a handler can meet.
type newConn struct{ oldConn }

func (c *newConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c.Begin() }

func (c *newConn) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	return c.insert([]driver.Value{args[0].Value})
}

func (c *newConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return c.database.result(), nil
}

func (c *newConn) PrepareContext(_ context.Context, statement string) (driver.Stmt, error) {
	return &newStmt{oldStmt{&c.oldConn, strings.Count(statement, "?")}}, nil
}

func (c *newConn) Ping(context.Context) error                     { return nil }
func (c *newConn) ResetSession(context.Context) error             { return nil }
func (c *newConn) IsValid() bool                                  { return true }
func (c *newConn) CheckNamedValue(value *driver.NamedValue) error { return textOnly(value) }

type newStmt struct{ oldStmt }

func (s *newStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.insert([]driver.Value{args[0].Value})
}

func (s *newStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return s.conn.database.result(), nil
}

func (s *newStmt) CheckNamedValue(value *driver.NamedValue) error { return textOnly(value) }

// textOnly converts a value as a driver with types of its own does.
func textOnly(value *driver.NamedValue) error {
	value.Value = fmt.Sprint(value.Value)
	return nil
}

// count is the result of the query: the number of rows.
type count struct {
	database *database
	read     bool
}

func (*count) Columns() []string { return []string{"count"} }

func (c *count) Close() error {
	c.database.opened(-1)
	return nil
}

func (c *count) Next(to []driver.Value) error {
	if c.read {
		return io.EOF
	}
	c.read, to[0] = true, int64(c.database.Count())
	return nil
}

// operation is a type that only a driver converts.
type operation struct{ name string }

func (o operation) String() string { return o.name }

// ledger writes payments to a database.
type ledger struct{ db *sql.DB }

const insert = "INSERT INTO charges (operation)\n\tVALUES (?) ON CONFLICT DO NOTHING"

// transfer is a handler with a transaction. The key makes a second insert a no-op.
func (l ledger) transfer(ctx context.Context, key string) (number int, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()            // after a commit it fails
	if _, err := tx.Exec(insert, key); err != nil { //nolint:noctx // the transaction has the context
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM charges").Scan(&number); err != nil {
		return 0, err
	}
	return 1, tx.Commit()
}

// prepared is the same without a transaction.
func (l ledger) prepared(ctx context.Context, key string) (number int, err error) {
	statement, err := l.db.PrepareContext(ctx, insert)
	if err != nil {
		return 0, err
	}
	defer statement.Close()
	if _, err := statement.ExecContext(ctx, key); err != nil {
		return 0, err
	}
	err = l.db.QueryRowContext(ctx, "SELECT count(*) FROM charges WHERE true OR operation = ?", key).Scan(&number)
	return number, err
}

// inside writes in the transaction of the request, as sqlstore.Tx returns it.
func (l ledger) inside(ctx context.Context) (int, error) {
	tx, _ := storage.TransactionFrom(ctx).(*sql.Tx)
	_, err := tx.ExecContext(ctx, "INSERT INTO charges", "")
	return 1, err
}

// outside takes the transaction, and writes beside it.
func (l ledger) outside(ctx context.Context) (int, error) {
	_ = storage.TransactionFrom(ctx)
	_, err := l.db.ExecContext(ctx, "INSERT INTO charges", "")
	return 1, err
}

// transactional is a service whose route is transactional.
func transactional(pay func(ledger, context.Context) (int, error)) func(*handlertest.World) handlertest.Service {
	return func(w *handlertest.World) handlertest.Service {
		d := new(database)
		db := sql.OpenDB(w.Connector(d))
		w.Cleanup(func() {
			db.Close()
			testkit.Equal(w, d.open, 0, "transactions that were not closed")
		})
		return handlertest.Service{
			Routes: func(engine *core.Engine) http.Handler {
				return nethttp(engine, func(rw http.ResponseWriter, r *http.Request) {
					if _, err := pay(ledger{db}, r.Context()); err != nil {
						http.Error(rw, "the database failed", http.StatusServiceUnavailable)
						return
					}
					rw.WriteHeader(http.StatusCreated)
				}, policy.Transactional(true))
			},
			Request: handlertest.Request{Path: "/payments"},
			Effects: d.Count,
			DB:      db,
		}
	}
}

// A write in the request's transaction needs no key, and a write beside it is found.
func TestTransactions(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, transactional(ledger.inside))
	handlertest.Run(t, transactional(func(l ledger, ctx context.Context) (int, error) {
		number, _ := l.inside(ctx) // the commit fails after a fault
		return number, nil
	}))

	report := handlertest.Examine(t, transactional(ledger.outside))
	wantWrong(t, report, map[string][]string{"two effects": {
		"charges during reply lost", "charges during panic", "charges during time-out", "charges during killed", "charges during lease lost",
		"Begin before lease lost", "Commit before unreachable", "Commit before killed", "Commit before lease lost",
	}})
	wantAdvice(t, report, "is not in the transaction of the request", "write in the transaction that sqlstore.Tx returns")

	report = handlertest.Examine(t, transactional(func(_ ledger, ctx context.Context) (int, error) {
		tx, _ := storage.TransactionFrom(ctx).(*sql.Tx)
		return 1, tx.Commit() // not the handler's to commit
	}))
	wantAdvice(t, report, "without a fault the client got no final response, but 503 not_confirmed")
}

// booking is a service with a database.
func booking(old bool, pay func(ledger, context.Context) (int, error)) func(*handlertest.World) handlertest.Service {
	return func(w *handlertest.World) handlertest.Service {
		d := &database{old: old}
		w.Cleanup(func() {
			testkit.Equal(w, d.open, 0, "results and transactions that were not closed")
		})
		return handlertest.Service{
			Routes: func(engine *core.Engine) http.Handler {
				db := sql.OpenDB(w.Connector(d))
				w.Cleanup(func() { db.Close() })
				if err := db.PingContext(w.Context()); err != nil {
					w.Error(err)
				}
				return nethttp(engine, func(rw http.ResponseWriter, r *http.Request) {
					number, err := pay(ledger{db}, r.Context())
					if err != nil {
						failure.MarkUncertain(r.Context())
						http.Error(rw, "the database failed", http.StatusServiceUnavailable)
						return
					}
					failure.MarkExecuted(r.Context())
					rw.WriteHeader(http.StatusCreated)
					fmt.Fprintln(rw, number)
				})
			},
			Request: handlertest.Request{Path: "/payments"},
			Effects: d.Count,
		}
	}
}

// forms are the ways to write to a database.
var forms = map[string]func(l ledger, ctx context.Context, key string) (int, error){
	"transaction": ledger.transfer, "prepared": ledger.prepared,
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, form := range forms {
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, old %v", name, old), func(t *testing.T) {
				t.Parallel()
				handlertest.Run(t, booking(old, func(l ledger, ctx context.Context) (int, error) {
					return form(l, ctx, core.DeriveKey(ctx, "charge"))
				}))
				report := handlertest.Examine(t, booking(old, func(l ledger, ctx context.Context) (int, error) { return form(l, ctx, "") }))
				effect := map[string]string{"transaction": "(COMMIT)", "prepared": "(exec INSERT INTO charges (operation) VALUES (…)"}[name]
				wantAdvice(t, report, "two effects", "a column with a unique constraint", "why: the call at connector_test.go:", effect+" may have its effect although it fails")
				wantPoints(t, report, name)
			})
		}
	}
}

// wantPoints wants the calls of a form, each with faults before its work is done, and the
// effect after the commit or the exec.
func wantPoints(t *testing.T, report *handlertest.Report, form string) {
	t.Helper()
	want := map[string]string{"transaction": "BEGIN, exec, query, COMMIT", "prepared": "exec, query"}[form]
	effect := map[string]string{"transaction": "COMMIT", "prepared": "exec"}[form]
	var calls []string
	for _, row := range report.Rows() {
		call, _, _ := strings.Cut(row.Point, " ")
		if row.When == "before" && row.Fault == "refused" {
			calls = append(calls, call)
		}
		if call == effect && row.Fault == "killed" && (row.When == "during") != (row.Effects == 2) {
			t.Errorf("%s %s: %d effects, want 1 before the work and 2 after it", row.When, row.Point, row.Effects)
		}
		if call == "exec" && !strings.HasPrefix(row.Point, "exec INSERT INTO charges (operation) VALUES (… (connector_test.go:") {
			t.Errorf("the point is %q", row.Point)
		}
	}
	testkit.Equal(t, strings.Join(calls, ", "), want, "the calls")
}

// A driver's own types and errors pass the kit.
func TestDriversPass(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, booking(false, func(l ledger, ctx context.Context) (int, error) {
		key := operation{core.DeriveKey(ctx, "charge")}
		_, err := l.db.ExecContext(ctx, insert, key)
		return 1, err
	}))
	// A handler that ignores the error of a statement loses its transaction.
	handlertest.Run(t, booking(false, func(l ledger, ctx context.Context) (int, error) {
		tx, err := l.db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		_, failed := tx.ExecContext(ctx, insert, core.DeriveKey(ctx, "charge"))
		if err := tx.Commit(); failed == nil || err != nil {
			return 1, err
		}
		t.Error("a transaction was committed after a fault")
		return 0, failed
	}))
	broken := errors.New("the database is not there")
	handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
		db := sql.OpenDB(w.Connector(unreachable{err: broken}))
		w.Cleanup(func() { db.Close() })
		if err := db.PingContext(w.Context()); !errors.Is(err, broken) {
			t.Errorf("a connection is %v, want %v", err, broken)
		}
		return paying(nethttp, bank.careful)(w)
	})
}

type unreachable struct {
	driver.Connector
	err error
}

func (u unreachable) Connect(context.Context) (driver.Conn, error) { return nil, u.err }
