package pgstore

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// rows is a store on the table of package sqlstore, by the statements and rules of package
// sqlrows. Concurrent calls share statements.
type rows struct {
	*sqlrows.Records
	store      *Store
	statements [sqlrows.Names]sqlrows.Statement
	// completeBegun is Complete in a handler's transaction. It changes no row in another
	// transaction than the one that the store has begun.
	completeBegun string

	claims      lane[storage.Claim, claimed]
	completions lane[*settlement, struct{}]
	// first and settled are the statements of a batch of claims, and of one of results.
	first, settled sqlrows.Many
}

func newRows(s *Store, table string) *rows {
	form := sqlrows.PostgreSQL()
	form.FirstReads, form.AsynchronousClaims = true, s.asynchronousClaims
	r := &rows{store: s, statements: form.Statements(table), first: form.ClaimMany(table), settled: form.CompleteMany(table)}
	r.Records = &sqlrows.Records{Package: "pgstore", Pool: runner{r, nil}, Client: client{s}, Form: &form, Table: table, Seen: sqlrows.NewSeen()}
	r.completeBegun = r.statements[sqlrows.Complete].Text + ` AND ` + isBegun
	r.claims.send, r.completions.send = r.claimMany, r.settleMany
	r.claims.statements, r.completions.statements = s.claims.statements, s.completions.statements
	return r
}

// client is the store as package sqlrows sees it.
type client struct{ *Store }

// Ready implements [sqlrows.Client].
func (client) Ready(context.Context) error { return nil }

// Again implements [sqlrows.Client].
func (client) Again(err error) bool { return notApplied(err) }

// Barred implements [sqlrows.Client].
func (client) Barred(err error) bool { return notApplied(err) || codeOf(err) == insufficientPrivilege }

// Duplicate implements [sqlrows.Client].
func (client) Duplicate(error) bool { return false }

// Explained implements [sqlrows.Client].
func (c client) Explained(err error) error { return c.explained(err) }

// Log implements [sqlrows.Client].
func (c client) Log() *slog.Logger { return c.log() }

// runner runs the statements of a record on a connection of the pool, or on db.
type runner struct {
	rows *rows
	db   querier
}

// on runs call where the runner's statements go. call must not use the caller's memory.
func on[T any](ctx context.Context, r runner, call func(ctx context.Context, db querier) (T, error)) (T, error) {
	if r.db != nil {
		return call(ctx, r.rows.store.often(r.db))
	}
	return onConnection(ctx, r.rows.store, call)
}

// Exec implements [sqlrows.Executor].
func (r runner) Exec(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (bool, error) {
	statement := &r.rows.statements[of]
	text, values := statement.Text, statement.Values(a.Clone())
	first := r.db != nil && of == sqlrows.Complete
	if first {
		text = r.rows.completeBegun
	}
	changed, err := on(ctx, r, func(ctx context.Context, db querier) (bool, error) {
		tag, err := db.Exec(ctx, text, values...)
		return tag.RowsAffected() > 0, err
	})
	if first && err == nil && !changed {
		err = r.rows.store.begun(ctx, r.db) // before the record is written in another way
	}
	return changed, unlessRefused(err)
}

// Find implements [sqlrows.Executor].
func (r runner) Find(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (*sqlrows.Row, error) {
	statement := &r.rows.statements[of]
	values := statement.Values(a.Clone())
	row, err := on(ctx, r, func(ctx context.Context, db querier) (row *sqlrows.Row, err error) {
		found, err := db.Query(ctx, statement.Text, values...)
		if err != nil {
			return nil, err
		}
		defer found.Close()
		if found.Next() {
			row, err = rowFrom(found, of)
		}
		found.Close()
		if err == nil {
			err = found.Err()
		}
		return row, err
	})
	if of == sqlrows.FirstOrRead {
		err = unlessRefused(err)
	}
	if err != nil || row == nil || row.IsNew() {
		return row, err
	}
	if err := row.Parse(); err != nil {
		return nil, err
	}
	return row, nil
}

// Each implements [sqlrows.Pool].
func (r runner) Each(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments, take func(row *sqlrows.Row, unread error) bool) error {
	statement := &r.rows.statements[of]
	found, err := r.rows.store.unprepared(r.rows.store.pool).Query(ctx, statement.Text, statement.Values(a)...)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(found, func(pgx.CollectableRow) (*sqlrows.Row, error) { return rowFrom(found, of) })
	for _, row := range all {
		var unread error
		if of == sqlrows.List {
			unread = row.Parse()
		}
		if !take(row, unread) {
			break
		}
	}
	return err
}

// Change implements [sqlrows.Pool].
func (r runner) Change(ctx context.Context, text string, values []any) (int64, error) {
	tag, err := r.rows.store.unprepared(r.rows.store.pool).Exec(ctx, text, values...)
	return tag.RowsAffected(), err
}

// rowFrom reads the columns of a statement.
func rowFrom(from pgx.Rows, of sqlrows.Name) (*sqlrows.Row, error) {
	var key, text string
	var content, sketch []byte
	raw := newRawRow(from)
	if of == sqlrows.List || of == sqlrows.Overdue {
		key = raw.text()
	}
	if of != sqlrows.Overdue {
		text = raw.text()
	}
	if of == sqlrows.Read || of == sqlrows.FirstOrRead {
		content, sketch = raw.bytes(), raw.bytes()
	}
	return sqlrows.Text(key, text, content, sketch), raw.end()
}

// Transacts reports that handlers can have transactions.
func (r *rows) Transacts() bool { return true }

// BeginTransaction implements [storage.Transactor].
func (r *rows) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	return r.store.begin(ctx, l, r.finish)
}

func (r *rows) finish(ctx context.Context, t *transaction, l storage.Lease, res storage.Result) (bool, error) {
	completed, err := r.Finish(ctx, runner{r, t.tx}, &l, &res)
	if errors.Is(err, sqlrows.ErrFinished) {
		return false, nil
	}
	return completed, err
}
