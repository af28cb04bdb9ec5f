package main

import (
	"fmt"
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
)

// payment is the body of a request at /payments and /refunds.
type payment struct {
	OrderID  string `json:"order_id"`
	Amount   int64  `json:"amount"` // in the currency's smallest unit
	Currency string `json:"currency"`
	Card     card   `json:"card"`
}

// receipt is the response to a payment that went through.
type receipt struct {
	PaymentID string `json:"payment_id,omitempty"`
	RefundID  string `json:"refund_id,omitempty"`
	OrderID   string `json:"order_id"`
	Status    string `json:"status"`
}

func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	m, err := s.moveMoney(w, r, charges, "pay_")
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/payments/"+m.id)
	m.respond(w, receipt{PaymentID: m.id, OrderID: m.OrderID, Status: "captured"})
}

func (s *shop) refund(w http.ResponseWriter, r *http.Request) {
	m, err := s.moveMoney(w, r, refunds, "ref_")
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/refunds/"+m.id)
	m.respond(w, receipt{RefundID: m.id, OrderID: m.OrderID, Status: "refunded"})
}

// movement is money that was moved for a payment.
type movement struct {
	payment
	id     string
	before bool // by an earlier request, or an earlier attempt of this request
}

// respond writes 201 if this request moved the money. For money that was moved before,
// respond writes 200 with the same receipt: the client gets the existing payment, and
// learns that the request made no new one.
func (m movement) respond(w http.ResponseWriter, receipt receipt) {
	if m.before {
		writeJSON(w, http.StatusOK, receipt)
		return
	}
	m.Card.respond(w, receipt)
}

// moveMoney makes the side effect, which must happen only once.
func (s *shop) moveMoney(w http.ResponseWriter, r *http.Request, book book, prefix string) (movement, error) {
	s.countAttempt()
	ctx := r.Context()
	p, err := readPayment(w, r)
	if err != nil {
		return movement{}, err
	}
	if err := p.Card.authorize(ctx); err != nil {
		return movement{}, err
	}

	// A payment provider would get this key. It is the same in every attempt of this
	// request, so that the provider recognises a second attempt.
	id := prefix + core.DeriveKey(ctx, string(book))[:8]
	in, added, err := s.ledger.add(ctx, book, entry{ID: id, OrderID: p.OrderID, Amount: p.Amount, Currency: p.Currency})
	if err != nil {
		return movement{}, err
	}
	failure.MarkExecuted(ctx) // the point of no return: from here on the response is kept
	if added {
		p.Card.crashAfterCharge()
	} else if in.Amount != p.Amount || in.Currency != p.Currency {
		return movement{}, refusal{http.StatusConflict, fmt.Sprintf("order %s was paid with another amount, as %s", in.OrderID, in.ID)}
	}
	return movement{p, in.ID, !added}, nil
}

func readPayment(w http.ResponseWriter, r *http.Request) (payment, error) {
	var p payment
	err := readJSON(w, r, &p)
	switch {
	case err != nil:
		return p, err
	case p.OrderID == "":
		return p, badRequest("order_id is missing")
	case p.Amount <= 0:
		return p, badRequest("amount must be more than 0, in the currency's smallest unit")
	case len(p.Currency) != 3:
		return p, badRequest("currency must be three letters, such as EUR")
	case p.Card.name == "":
		return p, badRequest("card is missing: try tok_ok")
	}
	return p, nil
}
