package main

import (
	"fmt"
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/examples/payments/internal/shop"
	"github.com/oncekey/oncekey/failure"
)

// payment is the body of a request at /payments and /refunds.
type payment struct {
	OrderID  string    `json:"order_id"`
	Amount   int64     `json:"amount"` // in the currency's smallest unit
	Currency string    `json:"currency"`
	Card     shop.Card `json:"card"`
}

// receipt is the response to a payment that went through.
type receipt struct {
	PaymentID string `json:"payment_id,omitempty"`
	RefundID  string `json:"refund_id,omitempty"`
	OrderID   string `json:"order_id"`
	Status    string `json:"status"`
}

// service has the handlers. They are plain net/http.
type service struct{ *shop.Shop }

func (s service) pay(w http.ResponseWriter, r *http.Request) {
	m, err := s.moveMoney(w, r, shop.Charges, "pay_")
	if err != nil {
		shop.WriteError(w, err)
		return
	}
	w.Header().Set("Location", "/payments/"+m.id)
	m.respond(w, receipt{PaymentID: m.id, OrderID: m.OrderID, Status: "captured"})
}

func (s service) refund(w http.ResponseWriter, r *http.Request) {
	m, err := s.moveMoney(w, r, shop.Refunds, "ref_")
	if err != nil {
		shop.WriteError(w, err)
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
		shop.WriteJSON(w, http.StatusOK, receipt)
		return
	}
	m.Card.Respond(w, receipt)
}

// moveMoney makes the side effect, which must happen only once.
func (s service) moveMoney(w http.ResponseWriter, r *http.Request, book shop.Book, prefix string) (movement, error) {
	s.CountAttempt()
	ctx := r.Context()
	p, err := readPayment(w, r)
	if err != nil {
		return movement{}, err
	}
	if err := p.Card.Authorize(ctx); err != nil {
		return movement{}, err
	}

	// A payment provider would get this key. It is the same in every attempt of this
	// request, so that the provider recognises a second attempt.
	id := prefix + core.DeriveKey(ctx, string(book))[:8]
	in, added, err := s.Ledger.Add(ctx, book, shop.Entry{ID: id, OrderID: p.OrderID, Amount: p.Amount, Currency: p.Currency})
	if err != nil {
		return movement{}, err
	}
	failure.MarkExecuted(ctx) // the point of no return: from here on the response is kept
	if added {
		p.Card.CrashAfterCharge()
	} else if in.Amount != p.Amount || in.Currency != p.Currency {
		return movement{}, shop.StatusError{Status: http.StatusConflict, Message: fmt.Sprintf("order %s was paid with another amount, as %s", in.OrderID, in.ID)}
	}
	return movement{p, in.ID, !added}, nil
}

func readPayment(w http.ResponseWriter, r *http.Request) (payment, error) {
	var p payment
	err := shop.ReadJSON(w, r, &p)
	switch {
	case err != nil:
		return p, err
	case p.OrderID == "":
		return p, shop.BadRequest("order_id is missing")
	case p.Amount <= 0:
		return p, shop.BadRequest("amount must be more than 0, in the currency's smallest unit")
	case len(p.Currency) != 3:
		return p, shop.BadRequest("currency must be three letters, such as EUR")
	case p.Card == (shop.Card{}):
		return p, shop.BadRequest("card is missing: try tok_ok")
	}
	return p, nil
}

// transfer moves money from one row to another, in the transaction in which the engine
// also stores the response. Both are committed or neither is, even if this process dies.
// The handler does not call failure.MarkExecuted, because no money has moved before the
// commit. It writes no entry in the ledger's file, because it returns before the commit.
func (s service) transfer(w http.ResponseWriter, r *http.Request) {
	s.CountAttempt()
	ctx := r.Context()
	t, err := readTransfer(w, r)
	if err != nil {
		shop.WriteError(w, err)
		return
	}
	t.ID, t.Status = "tr_"+core.DeriveKey(ctx, "transfer")[:8], "done"
	if err := s.Bank.Move(ctx, t); err != nil { // by pgstore.Tx or sqlstore.Tx
		shop.WriteError(w, err)
		return
	}
	w.Header().Set("Location", "/transfers/"+t.ID)
	shop.WriteJSON(w, http.StatusCreated, t)
}

const mostMoved = 1_000_000_000

func readTransfer(w http.ResponseWriter, r *http.Request) (shop.Transfer, error) {
	var t shop.Transfer
	err := shop.ReadJSON(w, r, &t)
	switch {
	case err != nil:
		return t, err
	case t.From == "" || t.To == "":
		return t, shop.BadRequest("from and to must name accounts, such as alice and bob")
	case t.From == t.To:
		return t, shop.BadRequest("from and to are the same account")
	case t.Amount <= 0 || t.Amount > mostMoved:
		return t, shop.BadRequest(fmt.Sprintf("amount must be from 1 to %d, in the smallest unit", mostMoved))
	}
	return t, nil
}
