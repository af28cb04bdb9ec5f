package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

// patience is how long a statement may go on after its caller has given up. pgx
// closes a connection whose statement is interrupted. Without patience each request
// that runs out of time would close a connection, and no request would ever reach a
// distant server. After patience the connection is closed, in case the server is
// frozen.
const patience = 3 * time.Second

// querier is a connection, the pool, or a handler's transaction.
type querier interface {
	Exec(ctx context.Context, statement string, arguments ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, statement string, arguments ...any) (pgx.Rows, error)
}

// unprepared sends each statement unprepared, in one round trip. Use it for rare
// statements, and behind a pooler: there the next statement may run in another
// session, without the prepared statement.
func (s *Store) unprepared(db querier) querier {
	switch s.mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return db
	default:
		return unprepared{db}
	}
}

type unprepared struct{ querier }

func (u unprepared) Exec(ctx context.Context, statement string, arguments ...any) (pgconn.CommandTag, error) {
	return u.querier.Exec(ctx, statement, append([]any{pgx.QueryExecModeExec}, arguments...)...)
}

func (u unprepared) Query(ctx context.Context, statement string, arguments ...any) (pgx.Rows, error) {
	return u.querier.Query(ctx, statement, append([]any{pgx.QueryExecModeExec}, arguments...)...)
}

// often returns the querier for the statements of every request.
func (s *Store) often(db querier) querier {
	if s.pooled.Load() {
		return s.unprepared(db)
	}
	return db
}

// prepares reports whether statements are prepared once for each connection.
func (s *Store) prepares() bool {
	return s.mode == pgx.QueryExecModeCacheStatement && !s.pooled.Load()
}

// onConnection runs call on a connection of the pool and returns its result, or the
// error of ctx as soon as ctx ends. call gets its own context, because its connection
// and its prepared statements outlive ctx. call must not use the caller's memory.
func onConnection[T any](ctx context.Context, s *Store, call func(ctx context.Context, db querier) (T, error)) (none T, err error) {
	connection, err := s.connect(ctx)
	if err != nil {
		return none, err
	}
	return panicked.Within(ctx, postgresClient, func() (T, error) { return use(ctx, s, connection, call) })
}

// connect takes a connection from the pool.
func (s *Store) connect(ctx context.Context) (*pgxpool.Conn, error) {
	connection, err := s.pool.Acquire(ctx)
	if err != nil && ctx.Err() != nil {
		s.proof.Begin(ctx) // gives later requests a connection
	}
	return connection, err
}

// use runs call on a connection, and releases the connection. It ends within patience,
// even after ctx has ended.
func use[T any](ctx context.Context, s *Store, connection *pgxpool.Conn, call func(ctx context.Context, db querier) (T, error)) (value T, err error) {
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err = panicked.Call(postgresClient, func() (err error) {
		defer release(connection) // before the caller goes on, which may need the connection
		value, err = call(patient, s.often(awaited{connection, ctx, s.prepares()}))
		switch codeOf(err) {
		case invalidStatementName, // its prepared statements are lost
			readOnlyTransaction: // the next connection may lead to the primary
			_ = connection.Conn().Close(patient)
		}
		return err
	})
	return value, err
}

// release gives a connection back to the pool. One that pgx has closed leaves the pool: with
// Release it would keep its place until the server has ended it too, for up to 15 seconds.
func release(connection *pgxpool.Conn) {
	if connection.Conn().IsClosed() {
		connection.Hijack()
		return
	}
	connection.Release()
}

// awaited is a connection that sends no statement after its caller has given up, but
// finishes preparing.
type awaited struct {
	*pgxpool.Conn
	caller   context.Context //nolint:containedctx // only its end is used
	prepares bool
}

func (a awaited) prepared(ctx context.Context, statement string) error {
	if a.prepares {
		if _, err := a.Conn.Conn().Prepare(ctx, statement, statement); err != nil {
			return err
		}
	}
	return a.caller.Err()
}

func (a awaited) Exec(ctx context.Context, statement string, arguments ...any) (pgconn.CommandTag, error) {
	if err := a.prepared(ctx, statement); err != nil {
		return pgconn.CommandTag{}, err
	}
	return a.Conn.Exec(ctx, statement, arguments...)
}

func (a awaited) Query(ctx context.Context, statement string, arguments ...any) (pgx.Rows, error) {
	if err := a.prepared(ctx, statement); err != nil {
		return nil, err
	}
	return a.Conn.Query(ctx, statement, arguments...)
}

// postgresClient names the code whose panic is an error, such as a panic of the pool's
// tracer. On a goroutine of the store the panic would end the process.
const postgresClient = "PostgreSQL client"
