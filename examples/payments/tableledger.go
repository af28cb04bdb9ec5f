package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

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

// add inserts a row, by itself: for a side effect that is part of the answer's own
// transaction see transfer. Whoever dies between this row and the stored answer
// leaves an abandoned key, and the next attempt gets here again: the table's
// UNIQUE constraint is what then keeps it from charging a second time.
//
// That attempt answers 409, for good. It could find the row and say 201; but
// somebody has died after the charge, and what else was left undone (a mail, a
// delivery) a program like this one cannot know: the client learns the id, and an
// operator reads the log.
func (l *tableLedger) add(ctx context.Context, b book, e entry) error {
	e = e.stamp(ctx)
	var operation *string // null is not unique
	if derived := core.DeriveKey(ctx, string(b)); derived != "" {
		operation = &derived
	}
	_, err := l.pool.Exec(ctx, `
INSERT INTO payments.ledger (kind, operation, id, order_id, email, text, "user", key, attempt, time)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		b, operation, e.ID, e.OrderID, e.Email, e.Text, e.User, e.Key, int64(e.Attempt), e.Time)
	switch {
	case codeOf(err) == uniqueViolation:
		slog.ErrorContext(ctx, "an attempt at what has happened already", "kind", b, "id", e.ID, "attempt", e.Attempt)
		return refusal{http.StatusConflict, fmt.Sprintf("this happened before, as %s %s, and its answer was lost", b, e.ID)}
	case err != nil:
		return explain(ctx, err)
	}
	if err := l.journal.append(b, e); err != nil { // the row is the truth
		slog.ErrorContext(ctx, "the ledger's file lacks a line", "error", err, "kind", b, "id", e.ID)
	}
	return nil
}

func (l *tableLedger) all(ctx context.Context) (map[book][]entry, error) {
	rows, err := l.pool.Query(ctx, `
SELECT kind, id, order_id, email, text, "user", key, attempt, time FROM payments.ledger ORDER BY number`)
	if err != nil {
		return nil, err
	}
	entries := emptyBooks()
	var b book
	var e entry
	_, err = pgx.ForEachRow(rows, []any{&b, &e.ID, &e.OrderID, &e.Email, &e.Text, &e.User, &e.Key, &e.Attempt, &e.Time}, func() error {
		e.Time = e.Time.UTC()
		entries[b] = append(entries[b], e)
		return nil
	})
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
