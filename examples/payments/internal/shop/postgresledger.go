package shop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
)

// Error codes of PostgreSQL, see appendix A of its manual.
const (
	checkViolation      = "23514"
	uniqueViolation     = "23505"
	textCannotBeEncoded = "22021"
)

//go:embed tables.sql
var tables string

// OverPostgres makes the tables of tables.sql, and returns the ledger and the bank in them.
func OverPostgres(ctx context.Context, pool *pgxpool.Pool, j *Journal) (Ledger, Bank, error) {
	_, err := pool.Exec(ctx, tables)
	return &postgresLedger{j, pool}, &postgresBank{pool}, err
}

// postgresLedger is a table that all processes share and that outlives each process.
type postgresLedger struct {
	journal *Journal
	pool    *pgxpool.Pool
}

// Add inserts a row in a transaction of its own. For a side effect within the response's
// transaction see postgresBank. A process that dies between this row and the stored response
// leaves an abandoned key. The constraint lets the next attempt find the row, and a retry
// under another key too.
func (l *postgresLedger) Add(ctx context.Context, b Book, e Entry) (in Entry, added bool, err error) {
	e = e.stamp(ctx)
	var operation *string // null is not unique
	if derived := core.DeriveKey(ctx, string(b)); derived != "" {
		operation = &derived
	}
	inserted, err := l.pool.Exec(ctx, `
INSERT INTO payments.ledger (kind, operation, id, order_id, amount, currency, email, text, "user", key, attempt, time)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING`,
		b, operation, e.ID, e.OrderID, e.Amount, e.Currency, e.Email, e.Text, e.User, e.Key, int64(e.Attempt), e.Time)
	if err != nil {
		return Entry{}, false, explain(ctx, err)
	}
	if inserted.RowsAffected() == 0 {
		in, err = l.find(ctx, b, operation, e)
		return in, false, err
	}
	if err := l.journal.append(b, e); err != nil { // the row is authoritative
		slog.ErrorContext(ctx, "the ledger's file lacks a line", "error", err, "kind", b, "id", e.ID)
	}
	return e, true, nil
}

// find returns the row that prevents the insertion of e.
func (l *postgresLedger) find(ctx context.Context, b Book, operation *string, e Entry) (Entry, error) {
	rows, err := l.pool.Query(ctx, `
SELECT `+columns+` FROM payments.ledger
WHERE kind = $1 AND (operation = $2 OR kind = 'charge' AND "user" = $3 AND order_id = $4) ORDER BY number LIMIT 1`,
		b, operation, e.User, e.OrderID)
	if err != nil {
		return Entry{}, explain(ctx, err)
	}
	in, err := pgx.CollectExactlyOneRow(rows, scanEntry)
	if err != nil {
		return Entry{}, explain(ctx, err)
	}
	slog.ErrorContext(ctx, "the side effect has already happened", "kind", b, "id", in.ID, "attempt", e.Attempt)
	return in.Entry, nil
}

// columns are the columns of an entry, in scanEntry's order.
const columns = `kind, id, order_id, amount, currency, email, text, "user", key, attempt, time`

func scanEntry(row pgx.CollectableRow) (page, error) {
	var p page
	err := row.Scan(&p.Book, &p.ID, &p.OrderID, &p.Amount, &p.Currency, &p.Email, &p.Text, &p.User, &p.Key, &p.Attempt, &p.Time)
	p.Time = p.Time.UTC()
	return p, err
}

// page is an entry with its book.
type page struct {
	Book
	Entry
}

func (l *postgresLedger) All(ctx context.Context) (map[Book][]Entry, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+columns+` FROM payments.ledger ORDER BY number`)
	if err != nil {
		return nil, err
	}
	pages, err := pgx.CollectRows(rows, scanEntry)
	entries := emptyBooks()
	for _, p := range pages {
		entries[p.Book] = append(entries[p.Book], p.Entry)
	}
	return entries, err
}

// explain turns a database error into the handler's error. Of all other errors the outcome
// is unknown: the key is released, and the constraint tells the next attempt.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errCutShort, err)
	case codeOf(err) == textCannotBeEncoded:
		return BadRequest("text cannot hold NUL characters or broken UTF-8")
	default:
		return err
	}
}

// codeOf returns the code of the server's own error, or an empty string.
func codeOf(err error) string {
	if refused, is := errors.AsType[*pgconn.PgError](err); is {
		return refused.Code
	}
	return ""
}
