package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
)

// Codes of PostgreSQL, see its appendix A.
const (
	checkViolation      = "23514"
	uniqueViolation     = "23505"
	textCannotBeEncoded = "22021"
)

// tableLedger is a table that all processes share, and that outlives them.
type tableLedger struct {
	journal *journal
	pool    *pgxpool.Pool
}

// add inserts a row, by itself: for a side effect that is part of the response's own
// transaction see transfer. A process that dies between this row and the stored
// response leaves an abandoned key. The next attempt then finds the row by its
// constraint, and so does a retry under another key.
func (l *tableLedger) add(ctx context.Context, b book, e entry) (in entry, added bool, err error) {
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
		return entry{}, false, explain(ctx, err)
	}
	if inserted.RowsAffected() == 0 {
		in, err = l.find(ctx, b, operation, e)
		return in, false, err
	}
	if err := l.journal.append(b, e); err != nil { // the row is the truth
		slog.ErrorContext(ctx, "the ledger's file lacks a line", "error", err, "kind", b, "id", e.ID)
	}
	return e, true, nil
}

// find returns the row that keeps e from being inserted.
func (l *tableLedger) find(ctx context.Context, b book, operation *string, e entry) (entry, error) {
	rows, err := l.pool.Query(ctx, `
SELECT `+columns+` FROM payments.ledger
WHERE kind = $1 AND (operation = $2 OR kind = 'charge' AND "user" = $3 AND order_id = $4) ORDER BY number LIMIT 1`,
		b, operation, e.User, e.OrderID)
	if err != nil {
		return entry{}, explain(ctx, err)
	}
	in, err := pgx.CollectExactlyOneRow(rows, scanEntry)
	if err != nil {
		return entry{}, explain(ctx, err)
	}
	slog.ErrorContext(ctx, "an attempt at what has happened already", "kind", b, "id", in.ID, "attempt", e.Attempt)
	return in.entry, nil
}

// columns are those of an entry, as scanEntry reads them.
const columns = `kind, id, order_id, amount, currency, email, text, "user", key, attempt, time`

func scanEntry(row pgx.CollectableRow) (page, error) {
	var p page
	err := row.Scan(&p.book, &p.ID, &p.OrderID, &p.Amount, &p.Currency, &p.Email, &p.Text, &p.User, &p.Key, &p.Attempt, &p.Time)
	p.Time = p.Time.UTC()
	return p, err
}

// page is an entry, and the book that it is in.
type page struct {
	book
	entry
}

func (l *tableLedger) all(ctx context.Context) (map[book][]entry, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+columns+` FROM payments.ledger ORDER BY number`)
	if err != nil {
		return nil, err
	}
	pages, err := pgx.CollectRows(rows, scanEntry)
	entries := emptyBooks()
	for _, p := range pages {
		entries[p.book] = append(entries[p.book], p.entry)
	}
	return entries, err
}

// explain makes of a database's error what its handler has to say about it. In
// all other cases nobody knows whether it happened: the key is freed, and the next
// attempt finds out by the constraint.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errCutShort, err)
	case codeOf(err) == textCannotBeEncoded:
		return badRequest("text cannot hold NUL characters or broken UTF-8")
	default:
		return err
	}
}

// codeOf is the code of the server's own error, or empty.
func codeOf(err error) string {
	if refused, is := errors.AsType[*pgconn.PgError](err); is {
		return refused.Code
	}
	return ""
}
