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
)

// sqlDriver names the code whose panic is an error on a goroutine of the store, where it
// would end the process (case 39): many drivers have hooks of the program.
const sqlDriver = "SQL driver"

// statement is a statement in the words of the store's dialect.
type statement struct {
	text  string
	order []parameter
	// prepared is the statement on the pool's connections, once it is used.
	prepared atomic.Pointer[sql.Stmt]
	// inTransaction is the statement in a handler's transaction, if it is another one.
	inTransaction *statement
	// simple is the statement for a server that does not know a variable of text, or "".
	simple string
}

// statements are those of every store.
type statements struct {
	read, head, lock, list, claim, insert, replace, complete, extend, releaseFirst, releaseLater, releaseSteps, forget, happened, didNotHappen,
	overdue statement
}

func (s *Store) compileStatements() {
	all := &s.statements
	for text, target := range map[string]*statement{
		readStatement: &all.read, headStatement: &all.head, lockStatement: &all.lock, listStatement: &all.list,
		claimStatement + s.dialect.onConflict: &all.claim, insertStatement + s.dialect.onConflict: &all.insert, replaceStatement: &all.replace,
		completeStatement: &all.complete, extendStatement: &all.extend,
		releaseFirstStatement: &all.releaseFirst, releaseLaterStatement: &all.releaseLater, releaseStepsStatement: &all.releaseSteps, forgetStatement: &all.forget,
		happenedStatement: &all.happened, didNotHappenStatement: &all.didNotHappen, overdueStatement: &all.overdue,
	} {
		target.text, target.order = s.dialect.compile(text, s.table)
		target.inTransaction = s.dialect.forTransaction(target)
	}
}

// headIn is the statement that reads the head of a row for a decision.
func (all *statements) headIn(tx *sql.Tx) *statement {
	if tx != nil {
		return &all.lock
	}
	return &all.head
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
	made, err := s.db.PrepareContext(ctx, of.text)
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
	ctx context.Context, s *Store, tx *sql.Tx, of *statement, a *arguments,
	prepared func(*sql.Stmt, context.Context, ...any) (R, error), direct func(database, context.Context, string, ...any) (R, error),
) (result R, err error) {
	if !s.dialect.prepares {
		var on database = s.db
		if tx != nil {
			on = tx
		}
		return direct(on, ctx, of.text, a.list(of.order)...)
	}
	if tx != nil && of.inTransaction != nil {
		of = of.inTransaction
	}
	made, err := s.on(ctx, of)
	if err != nil {
		return result, err
	}
	on := made
	if tx != nil {
		on = tx.StmtContext(ctx, made)
	}
	result, err = prepared(on, ctx, a.list(of.order)...)
	of.refresh(ctx, made, err)
	return result, err
}

// query runs a statement for its rows.
func (s *Store) query(ctx context.Context, tx *sql.Tx, of *statement, a *arguments) (*sql.Rows, error) {
	return run(ctx, s, tx, of, a, (*sql.Stmt).QueryContext, database.QueryContext)
}

// exec runs a statement that writes, and reports whether it has changed a row.
func (s *Store) exec(ctx context.Context, tx *sql.Tx, of *statement, a *arguments) (bool, error) {
	rows, err := inTurn(ctx, s, func() (int64, error) {
		return affected(run(ctx, s, tx, of, a, (*sql.Stmt).ExecContext, database.ExecContext))
	})
	if err != nil && s.neverStores(ctx, tx, a, err) {
		err = &notStorableError{err}
	}
	return rows > 0, err
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

// find reads the row of a key with a statement, into the columns of r. It returns false
// where the key has no row.
func (s *Store) find(ctx context.Context, tx *sql.Tx, of *statement, a *arguments, r *row, columns []any) (bool, error) {
	return ask(ctx, s, func() (bool, error) {
		rows, err := s.query(ctx, tx, of, a)
		if err != nil {
			return false, err
		}
		defer rows.Close()
		if !rows.Next() {
			return false, rows.Err()
		}
		if err := errors.Join(rows.Scan(columns...), rows.Close()); err != nil {
			return false, err
		}
		return true, r.parse()
	})
}
