package pgstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
)

// runner runs the statements of a record on a connection of the pool, or in a handler's
// transaction.
type runner struct {
	*Store
	tx querier // nil: the pool
}

// rare are the statements that are not worth preparing.
var rare = map[sqlrows.Name]bool{
	sqlrows.List: true, sqlrows.Overdue: true, sqlrows.Forget: true, sqlrows.Happened: true, sqlrows.DidNotHappen: true,
}

// onRunner runs call where the runner's statements go. call must not use the caller's memory.
func onRunner[T any](ctx context.Context, r runner, of sqlrows.Name, call func(ctx context.Context, db querier) (T, error)) (T, error) {
	switch {
	case r.tx != nil:
		return call(ctx, r.often(r.tx))
	case rare[of]:
		return call(ctx, r.unprepared(r.pool))
	default:
		return onConnection(ctx, r.Store, call)
	}
}

// Exec implements [sqlrows.Executor].
func (r runner) Exec(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (bool, error) {
	statement := &r.statements[of]
	text, values := statement.Text, statement.Values(a.Clone())
	begun := r.tx != nil && of == sqlrows.Complete
	if begun {
		text = r.completeBegun
	}
	changed, err := onRunner(ctx, r, of, func(ctx context.Context, db querier) (bool, error) {
		tag, err := db.Exec(ctx, text, values...)
		return tag.RowsAffected() > 0, err
	})
	if begun && err == nil && !changed {
		err = r.begun(ctx, r.tx) // before the record is written in another way
	}
	return changed, unlessRefused(err)
}

// Find implements [sqlrows.Executor].
func (r runner) Find(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (*sqlrows.Row, error) {
	rows, err := r.rows(ctx, of, r.statements[of].Values(a.Clone()))
	if of == sqlrows.FirstOrRead {
		err = unlessRefused(err)
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if !rows[0].IsNew() {
		err = rows[0].Parse()
	}
	return rows[0], err
}

// Each implements [sqlrows.Pool].
func (r runner) Each(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments, take func(row *sqlrows.Row, unread error) bool) error {
	all, err := r.rows(ctx, of, r.statements[of].Values(a))
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
	tag, err := r.unprepared(r.pool).Exec(ctx, text, values...)
	return tag.RowsAffected(), err
}

// rows runs a statement for its rows.
func (r runner) rows(ctx context.Context, of sqlrows.Name, values []any) ([]*sqlrows.Row, error) {
	keyed, headed := of == sqlrows.List || of == sqlrows.Overdue, of != sqlrows.Overdue
	whole := of == sqlrows.Read || of == sqlrows.FirstOrRead
	return onRunner(ctx, r, of, func(ctx context.Context, db querier) ([]*sqlrows.Row, error) {
		found, err := db.Query(ctx, r.statements[of].Text, values...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(found, func(pgx.CollectableRow) (*sqlrows.Row, error) { return rowFrom(found, keyed, headed, whole) })
	})
}

var errColumns = errors.New("a row has other columns than the statement selects")

// rowFrom reads a row: its key, its head and its response, as far as the statement reads
// them. pgx's own Scan chooses a decoder for each column of each row, which took a tenth of a
// replay's time.
func rowFrom(from pgx.Rows, keyed, headed, whole bool) (*sqlrows.Row, error) {
	r := rawRow{fields: from.FieldDescriptions(), values: from.RawValues()}
	var key, head string
	var content, sketch []byte
	if keyed {
		key = r.text()
	}
	if headed {
		head = r.text()
	}
	if whole {
		content, sketch = r.bytes(), r.bytes()
	}
	if r.err == nil && len(r.values) > 0 {
		r.err = errColumns
	}
	return sqlrows.Text(key, head, content, sketch), r.err
}

// rawRow are the columns that are left of a row, in the server's format: binary or text.
type rawRow struct {
	fields []pgconn.FieldDescription
	values [][]byte
	err    error // the first error
}

// next returns the next column, and whether it is binary.
func (r *rawRow) next() (value []byte, isBinary bool) {
	if len(r.values) == 0 {
		r.err = errColumns
		return nil, false
	}
	value, isBinary = r.values[0], r.fields[0].Format == pgx.BinaryFormatCode
	r.values, r.fields = r.values[1:], r.fields[1:]
	return value, isBinary
}

// text reads a text, which has the same bytes in both formats.
func (r *rawRow) text() string {
	value, _ := r.next()
	return string(value)
}

// bytes reads a copy of a bytea, or nil for null.
func (r *rawRow) bytes() []byte {
	value, isBinary := r.next()
	if value == nil || isBinary {
		return bytes.Clone(value)
	}
	decoded, err := hex.DecodeString(string(bytes.TrimPrefix(value, []byte(`\x`))))
	if err != nil {
		r.err = fmt.Errorf("a bytea is not hexadecimal: the session's bytea_output must be hex: %w", err)
	}
	return decoded
}

// session runs statements without parameters.
type session struct{ querier }

// Run implements [sqlrows.Session].
func (s session) Run(ctx context.Context, text string) error {
	_, err := s.Exec(ctx, text)
	return err
}

// one reads the only row of a query.
func (s session) one(ctx context.Context, text string, into ...any) error {
	return s.Each(ctx, text, func(scan func(into ...any) error) error { return scan(into...) })
}

// Each implements [sqlrows.Session].
func (s session) Each(ctx context.Context, text string, take func(scan func(into ...any) error) error) error {
	rows, err := s.Query(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	return sqlrows.Take(rows, take)
}
