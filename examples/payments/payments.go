package main

import (
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
)

// payment is what a client asks for, at /payments and /refunds alike.
type payment struct {
	OrderID  string `json:"order_id"`
	Amount   int64  `json:"amount"` // in the currency's smallest unit
	Currency string `json:"currency"`
	Card     card   `json:"card"`
}

// receipt is the answer to a payment that went through.
type receipt struct {
	PaymentID string `json:"payment_id,omitempty"`
	RefundID  string `json:"refund_id,omitempty"`
	OrderID   string `json:"order_id"`
	Status    string `json:"status"`
}

func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	p, id, err := s.moveMoney(w, r, charges, "pay_")
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/payments/"+id)
	p.Card.answer(w, receipt{PaymentID: id, OrderID: p.OrderID, Status: "captured"})
}

func (s *shop) refund(w http.ResponseWriter, r *http.Request) {
	p, id, err := s.moveMoney(w, r, refunds, "ref_")
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/refunds/"+id)
	p.Card.answer(w, receipt{RefundID: id, OrderID: p.OrderID, Status: "refunded"})
}

// moveMoney does what must not happen twice, and returns the id of what it did.
func (s *shop) moveMoney(w http.ResponseWriter, r *http.Request, book book, prefix string) (payment, string, error) {
	s.countAttempt()
	ctx := r.Context()
	p, err := readPayment(w, r)
	if err != nil {
		return p, "", err
	}
	if err := p.Card.authorize(ctx); err != nil {
		return p, "", err
	}

	// A payment provider would be handed this key: it is the same in every
	// attempt of this request, so that the provider recognises a second one.
	id := prefix + core.DeriveKey(ctx, string(book))[:8]
	if err := s.ledger.add(ctx, book, entry{ID: id, OrderID: p.OrderID}); err != nil {
		return p, "", err
	}
	failure.MarkExecuted(ctx) // the point of no return: from here on the answer is kept, whatever happens
	p.Card.crashAfterCharge()
	return p, id, nil
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
