package handlertest

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

// Connector returns a driver.Connector with the faults of the run, for a database that
// works in memory. Open the pool in Service.Routes, because a process has its own, and
// close it with w.Cleanup:
//
//	db := sql.OpenDB(w.Connector(database))
//	w.Cleanup(func() { db.Close() })
//
// A fault breaks its connection, and rolls back an open transaction. sql.Conn.Raw gets a
// connection of the kit.
func (w *World) Connector(to driver.Connector) driver.Connector { return &connector{to, w} }

type connector struct {
	driver.Connector
	world *World
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	to, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: to, world: c.world}, nil
}

// conn is a connection. database/sql uses it by one goroutine at a time.
type conn struct {
	driver.Conn
	world  *World
	tx     context.Context // of the open transaction, or nil
	broken bool
}

// call makes one call to the database. Inside a transaction of the handler the call ends with
// the transaction's context, as database/sql rolls the transaction back then.
func (c *conn) call(ctx context.Context, k kind, name string, do func() error) error {
	if c.broken {
		return driver.ErrBadConn
	}
	switch own := isOwn(ctx) || isOwn(c.tx); {
	case own && (k == begin || k == commit):
		return do()
	case c.tx != nil && !own:
		ctx = c.tx
	}
	_, err := c.world.outgoing(ctx, k, name, do)
	// A statement whose context has ended ends the transaction: PostgreSQL aborts it, and the driver
	// of MySQL closes the connection.
	cutOff := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	c.broken = errors.Is(err, errFault) || cutOff && isOwn(c.tx)
	return err
}

// named is a statement's name in the matrix.
func named(verb, statement string) string {
	const longest = 40
	text := []rune(strings.Join(strings.Fields(statement), " "))
	if len(text) > longest {
		text = append(text[:longest:longest], '…')
	}
	return verb + " " + string(text)
}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	var to driver.Tx
	err := c.call(ctx, begin, "BEGIN", func() (err error) {
		if with, ok := c.Conn.(driver.ConnBeginTx); ok {
			to, err = with.BeginTx(ctx, options)
		} else {
			to, err = c.Conn.Begin() //nolint:staticcheck // a driver without BeginTx
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.tx = ctx
	return &tx{to, c}, nil
}

// tx is an open transaction.
type tx struct {
	to   driver.Tx
	conn *conn
}

// Commit implements driver.Tx. Where the call fails before it is made, the server rolls
// back, because the connection has ended.
func (t *tx) Commit() error {
	made := false
	defer func() {
		t.conn.tx = nil
		if !made {
			_ = t.to.Rollback() // the fault is the error
		}
	}()
	return t.conn.call(t.conn.tx, commit, "COMMIT", func() error {
		made = true
		return t.to.Commit()
	})
}

// Rollback implements driver.Tx. The server rolls back for a broken connection, too.
func (t *tx) Rollback() error {
	t.conn.tx = nil
	return t.to.Rollback()
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, statement string, args []driver.NamedValue) (result driver.Result, err error) {
	with, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip // database/sql prepares the statement
	}
	err = c.call(ctx, exec, named("exec", statement), func() (err error) {
		result, err = with.ExecContext(ctx, statement, args)
		return err
	})
	return result, err
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Rows, error) {
	with, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return c.query(ctx, statement, func() (driver.Rows, error) { return with.QueryContext(ctx, statement, args) })
}

// query closes the rows of a query whose reply is lost.
func (c *conn) query(ctx context.Context, statement string, do func() (driver.Rows, error)) (rows driver.Rows, err error) {
	err = c.call(ctx, query, named("query", statement), func() (err error) {
		rows, err = do()
		return err
	})
	if err != nil && rows != nil {
		_ = rows.Close() // the fault is the error
		rows = nil
	}
	return rows, err
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, statement string) (to driver.Stmt, err error) {
	if c.broken {
		return nil, driver.ErrBadConn
	}
	if with, ok := c.Conn.(driver.ConnPrepareContext); ok {
		to, err = with.PrepareContext(ctx, statement)
	} else {
		to, err = c.Conn.Prepare(statement)
	}
	if err != nil {
		return nil, err
	}
	return &stmt{to, c, statement}, nil
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	if with, ok := c.Conn.(driver.Pinger); ok && !c.broken {
		return with.Ping(ctx)
	}
	return nil
}

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	if with, ok := c.Conn.(driver.SessionResetter); ok {
		return with.ResetSession(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool {
	with, ok := c.Conn.(driver.Validator)
	return !c.broken && (!ok || with.IsValid())
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(value *driver.NamedValue) error {
	if with, ok := c.Conn.(driver.NamedValueChecker); ok {
		return with.CheckNamedValue(value)
	}
	return driver.ErrSkip // database/sql converts the value
}

// stmt is a prepared statement.
type stmt struct {
	driver.Stmt
	conn      *conn
	statement string
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	err = s.conn.call(ctx, exec, named("exec", s.statement), func() (err error) {
		if with, ok := s.Stmt.(driver.StmtExecContext); ok {
			result, err = with.ExecContext(ctx, args)
		} else {
			result, err = s.Exec(values(args))
		}
		return err
	})
	return result, err
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(ctx, s.statement, func() (driver.Rows, error) {
		if with, ok := s.Stmt.(driver.StmtQueryContext); ok {
			return with.QueryContext(ctx, args)
		}
		return s.Query(values(args))
	})
}

// CheckNamedValue implements driver.NamedValueChecker, and asks the statement before the
// connection, as database/sql does.
func (s *stmt) CheckNamedValue(value *driver.NamedValue) error {
	switch with := s.Stmt.(type) {
	case driver.NamedValueChecker:
		return with.CheckNamedValue(value)
	case driver.ColumnConverter: //nolint:staticcheck // a driver without NamedValueChecker
		converted, err := with.ColumnConverter(value.Ordinal - 1).ConvertValue(value.Value)
		value.Value = converted
		return err
	default:
		return s.conn.CheckNamedValue(value)
	}
}

func values(args []driver.NamedValue) []driver.Value {
	all := make([]driver.Value, len(args))
	for i, arg := range args {
		all[i] = arg.Value
	}
	return all
}
