package shop

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
)

// Transfer is the body of a request at /transfers without the id and the status, and of its
// response with the id and the status.
type Transfer struct {
	ID     string `json:"transfer_id"`
	From   string `json:"from"`
	To     string `json:"to"`
	Amount int64  `json:"amount"`
	Status string `json:"status"`
}

// Bank has all users' accounts. Any user may move the money of another: do not copy this
// part.
type Bank interface {
	// Move makes a transfer in the transaction of the request. A transfer that it refuses
	// leaves no writes.
	Move(ctx context.Context, t Transfer) error
	Balances(ctx context.Context) (map[string]int64, error)
	// Transfers returns every transfer, oldest first.
	Transfers(ctx context.Context) ([]Transfer, error)
}

// posting is the change of one account.
type posting struct {
	account string
	amount  int64
}

// postings are in the order of the accounts' names, so that two transfers never wait for
// each other.
func (t Transfer) postings() []posting {
	postings := []posting{{t.From, -t.Amount}, {t.To, t.Amount}}
	if t.To < t.From {
		slices.Reverse(postings)
	}
	return postings
}

var errInsufficient = StatusError{http.StatusPaymentRequired, "insufficient funds"}

func errUnknownAccount(name string) error {
	return StatusError{http.StatusNotFound, fmt.Sprintf("account %q is unknown", name)}
}

// errMovedBefore refuses a transfer that is a row already. The row and the response were
// committed together, so the record has been removed: the record expired, or an operator
// removed it.
func errMovedBefore(ctx context.Context, t Transfer) error {
	slog.ErrorContext(ctx, "the transfer has already been done", "id", t.ID, "user", UserFrom(ctx))
	return StatusError{http.StatusConflict, "this key has moved money before: use another key"}
}

// ShowBalances responds to GET /balances.
func (s *Shop) ShowBalances(w http.ResponseWriter, r *http.Request) {
	balances, err := s.Bank.Balances(r.Context())
	if err != nil {
		WriteError(w, err)
		return
	}
	WriteJSON(w, http.StatusOK, balances)
}
