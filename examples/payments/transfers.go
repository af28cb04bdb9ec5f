package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/oncekey/oncekey/core"
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
type bank interface {
	// move makes a transfer in the transaction of the request. A transfer that it refuses
	// leaves no writes.
	move(ctx context.Context, t transfer) error
	balances(ctx context.Context) (map[string]int64, error)
	// transfers returns every transfer, oldest first.
	transfers(ctx context.Context) ([]transfer, error)
}

// posting is the change of one account.
type posting struct {
	account string
	amount  int64
}

// postings are in the order of the accounts' names, so that two transfers never wait for
// each other.
func (t transfer) postings() []posting {
	postings := []posting{{t.From, -t.Amount}, {t.To, t.Amount}}
	if t.To < t.From {
		slices.Reverse(postings)
	}
	return postings
}

var errInsufficient = refusal{http.StatusPaymentRequired, "insufficient funds"}

func errUnknownAccount(name string) error {
	return refusal{http.StatusNotFound, fmt.Sprintf("account %q is unknown", name)}
}

// errMovedBefore refuses a transfer that is a row already. The row and the response were
// committed together, so the record has been removed: the record expired, or an operator
// removed it.
func errMovedBefore(ctx context.Context, t transfer) error {
	slog.ErrorContext(ctx, "the transfer has already been done", "id", t.ID, "user", userFrom(ctx))
	return refusal{http.StatusConflict, "this key has moved money before: use another key"}
}

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
	t.ID, t.Status = "tr_"+core.DeriveKey(ctx, "transfer")[:8], "done"
	if err := s.bank.move(ctx, t); err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/transfers/"+t.ID)
	writeJSON(w, http.StatusCreated, t)
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
