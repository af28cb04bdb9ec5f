package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/internal/sqlrows"
)

// sqlDriver names the code whose panic is an error on a goroutine of the store, where it
// would end the process: many drivers have hooks of the program.
const sqlDriver = "SQL driver"

// statement is a statement in the words of the store's dialect.
type statement struct {
	sqlrows.Statement
	// prepared is the statement on the pool's connections, once it is used.
	prepared atomic.Pointer[sql.Stmt]
	// inTransaction is the statement in a handler's transaction, if it is another one.
	inTransaction *statement
	// simple is the statement for a server that does not know a variable of text, or "".
	simple string
}

func (s *Store) compileStatements() {
	for name, made := range s.dialect.Statements(s.table) {
		of := &s.statements[name]
		of.Statement = made
		of.inTransaction = s.dialect.forTransaction(of)
	}
}

// on is the statement on the pool. It is prepared once for each connection, and closed
// with the connection. One caller prepares, and the others wait: a second statement
// would have to be closed, which waits for its connection's next user, past any deadline.
func (s *Store) on(ctx context.Context, of *statement) (*sql.Stmt, error) {
	if prepared := of.prepared.Load(); prepared != nil {
		return prepared, nil
	}
	select {
	case s.preparing <- struct{}{}:
		defer func() { <-s.preparing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if prepared := of.prepared.Load(); prepared != nil {
		return prepared, nil
	}
	made, err := s.db.PrepareContext(ctx, of.Text)
	if of.simple != "" && faultOf(err).number == mysqlNoVariable {
		made, err = s.db.PrepareContext(ctx, of.simple)
	}
	if err == nil {
		of.prepared.Store(made)
	}
	return made, err
}

// refresh lets the next use of a statement prepare it again, after an error that says
// that the database no longer knows it. The statement is closed once its last user is
// done, which may be after ctx.
func (of *statement) refresh(ctx context.Context, prepared *sql.Stmt, err error) {
	if err != nil && faultOf(err).stale && of.prepared.CompareAndSwap(prepared, nil) {
		_, _ = within(ctx, func() (struct{}, error) { return struct{}{}, prepared.Close() }) // the database may have forgotten it
	}
}

// database is a pool or a transaction.
type database interface {
	ExecContext(ctx context.Context, text string, values ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, values ...any) (*sql.Rows, error)
}

// run runs a statement on a handler's transaction, or on the pool without one. With a
// dialect that prepares, it calls prepared, and otherwise direct.
func run[R any](
	ctx context.Context, s *Store, tx *sql.Tx, of *statement, a *sqlrows.Arguments,
	prepared func(*sql.Stmt, context.Context, ...any) (R, error), direct func(database, context.Context, string, ...any) (R, error),
) (result R, err error) {
	if !s.dialect.prepares {
		var on database = s.db
		if tx != nil {
			on = tx
		}
		return direct(on, ctx, of.Text, of.Values(a)...)
	}
	if tx != nil && of.inTransaction != nil {
		of = of.inTransaction
	}
	if tx == nil {
		places := s.places()
		if err := places.take(ctx); err != nil {
			return result, err
		}
		defer func() { places.giveBack(ctx.Err() != nil) }()
	}
	made, err := s.on(ctx, of)
	if err != nil {
		return result, err
	}
	on := made
	if tx != nil {
		on = tx.StmtContext(ctx, made)
	}
	result, err = prepared(on, ctx, of.Values(a)...)
	of.refresh(ctx, made, err)
	return result, err
}

// query runs a statement for its rows.
func (s *Store) query(ctx context.Context, tx *sql.Tx, of *statement, a *sqlrows.Arguments) (*sql.Rows, error) {
	return run(ctx, s, tx, of, a, (*sql.Stmt).QueryContext, database.QueryContext)
}

// runner runs the statements of a record on the pool, or in a handler's transaction.
type runner struct {
	s  *Store
	tx *sql.Tx
}

// Exec implements [sqlrows.Executor].
func (r runner) Exec(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (bool, error) {
	rows, err := inTurn(ctx, r.s, func() (int64, error) {
		return affected(run(ctx, r.s, r.tx, &r.s.statements[of], a, (*sql.Stmt).ExecContext, database.ExecContext))
	})
	if err != nil && r.s.neverStores(ctx, r.tx, a, err) {
		err = &notStorableError{err}
	}
	return rows > 0, err
}

// Find implements [sqlrows.Executor].
func (r runner) Find(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (*sqlrows.Row, error) {
	return ask(ctx, r.s, func() (*sqlrows.Row, error) {
		rows, err := r.s.query(ctx, r.tx, &r.s.statements[of], a)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		if !rows.Next() {
			return nil, rows.Err()
		}
		var row sqlrows.Row
		if err := errors.Join(rows.Scan(row.Columns(of, &r.s.dialect.Form)...), rows.Close()); err != nil {
			return nil, err
		}
		return &row, row.Parse()
	})
}

// Each implements [sqlrows.Pool].
func (r runner) Each(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments, take func(row *sqlrows.Row, unread error) bool) error {
	type read struct {
		row    sqlrows.Row
		unread error
	}
	all, err := ask(ctx, r.s, func() (all []read, err error) {
		rows, err := r.s.query(ctx, r.tx, &r.s.statements[of], a)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			all = append(all, read{})
			one := &all[len(all)-1]
			if err := rows.Scan(one.row.Columns(of, &r.s.dialect.Form)...); err != nil {
				return nil, err
			}
			if of != sqlrows.Overdue {
				one.unread = one.row.Parse()
			}
		}
		return all, rows.Err()
	})
	for i := range all {
		if !take(&all[i].row, all[i].unread) {
			break
		}
	}
	return err
}

// Change implements [sqlrows.Pool].
func (r runner) Change(ctx context.Context, text string, values []any) (int64, error) {
	return inTurn(ctx, r.s, func() (int64, error) { return affected(r.s.db.ExecContext(ctx, text, values...)) })
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// inTurn makes a call that writes. In a database with a single writer it waits for its
// turn: SQLite's own wait polls.
func inTurn[R any](ctx context.Context, s *Store, call func() (R, error)) (result R, err error) {
	if s.writer == nil {
		return ask(ctx, s, call)
	}
	select {
	case s.writer <- struct{}{}:
	case <-ctx.Done():
		return result, ctx.Err()
	}
	return ask(ctx, s, func() (R, error) {
		defer func() { <-s.writer }()
		return call()
	})
}

// prompt are the packages of drivers whose calls return when their context ends. lib/pq
// waits for a server that does not answer, and go-sqlite3 for its busy_timeout.
var prompt = []string{"github.com/jackc/pgx/v5/stdlib", "github.com/go-sql-driver/mysql", "modernc.org/sqlite"}

// isPrompt reports whether a driver is known to be one of them. A driver that wraps
// another is not, and a connector may have none.
func isPrompt(d driver.Driver) bool {
	of := reflect.TypeOf(d)
	if of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of != nil && slices.Contains(prompt, of.PkgPath())
}

// ask makes a call of the driver, which returns when ctx ends. It saves a prompt driver
// the goroutine, which would be 8 % of a replay.
func ask[R any](ctx context.Context, s *Store, call func() (R, error)) (R, error) {
	if s.prompt {
		return call()
	}
	return within(ctx, call)
}

// within makes a call on a goroutine, and returns when ctx ends, see [panicked.Within].
func within[R any](ctx context.Context, call func() (R, error)) (R, error) {
	return panicked.Within(ctx, sqlDriver, call)
}
