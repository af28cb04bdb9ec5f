package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
)

const mostMoved = 1_000_000_000

// transfer is the body of a request without the id and the status, and of its response
// with the id and the status.
type transfer struct {
	ID     string `json:"transfer_id"`
	From   string `json:"from"`
	To     string `json:"to"`
	Amount int64  `json:"amount"`
	Status string `json:"status"`
}

// bank has all users' accounts. Any user may move the money of another: do not copy this
// part.
type bank struct{ pool *pgxpool.Pool }

// transfer moves money from one row to another, in the transaction in which the engine
// also stores the response. Both are committed or neither is, even if this process dies.
// The handler does not call failure.MarkExecuted, because no money has moved before the
// commit. It writes no entry in the ledger's file, because it returns before the commit.
func (s *shop) transfer(w http.ResponseWriter, r *http.Request) {
	s.countAttempt()
	ctx := r.Context()
	t, err := readTransfer(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	tx, err := pgstore.Tx(ctx)
	if err != nil {
		writeError(w, err)
		return
	}
	t.ID, t.Status = "tr_"+core.DeriveKey(ctx, "transfer")[:8], "done"

	// A refusal is a response too, and is committed with the handler's writes. The savepoint
	// undoes the writes before the refusal.
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return t.execute(ctx, savepoint) })
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/transfers/"+t.ID)
	writeJSON(w, http.StatusCreated, t)
}

// execute changes accounts in the order of their names, so that two transfers never wait
// for each other.
func (t transfer) execute(ctx context.Context, tx pgx.Tx) error {
	type change struct {
		account string
		amount  int64
	}
	first, second := change{t.From, -t.Amount}, change{t.To, t.Amount}
	if second.account < first.account {
		first, second = second, first
	}
	for _, c := range []change{first, second} {
		changed, err := tx.Exec(ctx, `UPDATE payments.accounts SET balance = balance + $2 WHERE name = $1`, c.account, c.amount)
		switch {
		case codeOf(err) == checkViolation:
			return refusal{http.StatusPaymentRequired, "insufficient funds"}
		case err != nil:
			return explain(ctx, err)
		case changed.RowsAffected() == 0:
			return refusal{http.StatusNotFound, fmt.Sprintf("account %q is unknown", c.account)}
		}
	}
	_, err := tx.Exec(ctx, `
INSERT INTO payments.transfers (id, "from", "to", amount, "user", key) VALUES ($1, $2, $3, $4, $5, $6)`,
		t.ID, t.From, t.To, t.Amount, userFrom(ctx), core.KeyFrom(ctx))
	switch {
	case codeOf(err) == uniqueViolation:
		// The row and the response were committed together, so the record has been removed:
		// the record expired, or an operator removed it.
		slog.ErrorContext(ctx, "the transfer has already been done", "id", t.ID, "user", userFrom(ctx))
		return refusal{http.StatusConflict, "this key has moved money before: use another key"}
	case err != nil:
		return explain(ctx, err)
	}
	return nil
}

func readTransfer(w http.ResponseWriter, r *http.Request) (transfer, error) {
	var t transfer
	err := readJSON(w, r, &t)
	switch {
	case err != nil:
		return t, err
	case t.From == "" || t.To == "":
		return t, badRequest("from and to must name accounts, such as alice and bob")
	case t.From == t.To:
		return t, badRequest("from and to are the same account")
	case t.Amount <= 0 || t.Amount > mostMoved:
		return t, badRequest(fmt.Sprintf("amount must be from 1 to %d, in the smallest unit", mostMoved))
	}
	return t, nil
}

// showBalances responds to GET /balances.
func (s *shop) showBalances(w http.ResponseWriter, r *http.Request) {
	balances, err := s.bank.balances(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, balances)
}

func (b *bank) balances(ctx context.Context) (map[string]int64, error) {
	rows, err := b.pool.Query(ctx, `SELECT name, balance FROM payments.accounts`)
	if err != nil {
		return nil, err
	}
	balances := make(map[string]int64)
	var name string
	var balance int64
	_, err = pgx.ForEachRow(rows, []any{&name, &balance}, func() error {
		balances[name] = balance
		return nil
	})
	return balances, err
}

func (b *bank) transfers(ctx context.Context) ([]transfer, error) {
	rows, err := b.pool.Query(ctx, `SELECT id, "from", "to", amount, 'done' FROM payments.transfers ORDER BY number`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[transfer])
}
