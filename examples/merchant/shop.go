package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
)

// shop has the operations of a checkout, without a protocol.
type shop struct {
	db     *sql.DB
	charge charger
}

type status string

const (
	ready      status = "ready"
	completing status = "completing" // by one operation
	completed  status = "completed"
	canceled   status = "canceled"
)

// session is a checkout of one client.
type session struct {
	ID     string
	Lines  []line
	Status status
	// Order is the id of the order of a completed session.
	Order string
	// Refused is the reason for which an operation did not complete the session, or empty.
	Refused refusal
	// operation is the completion to which a completing or completed session belongs.
	operation string
}

// line is an item with its price at the time of the choice. Amounts are in cents.
type line struct {
	Item     string `json:"item"`
	Title    string `json:"title"`
	Price    int64  `json:"price"`
	Quantity int64  `json:"quantity"`
}

func (s *session) total() (sum int64) {
	for _, l := range s.Lines {
		sum += l.Price * l.Quantity
	}
	return sum
}

// refusal is a business outcome: the request was served, and the buyer has to choose again.
type refusal string

const (
	outOfStock      refusal = "out_of_stock"
	paymentDeclined refusal = "payment_declined"
)

var explained = map[refusal]string{
	outOfStock:      "an item is sold out: choose other items, and complete with a new key",
	paymentDeclined: "the card was declined: choose another card, and complete with a new key",
}

func permalink(order string) string { return "https://shop.example/orders/" + order }

var (
	errNotFound = errors.New("no such checkout session")
	errClosed   = errors.New("checkout session is completed or canceled")
	errBusy     = errors.New("checkout session is being completed by another request")
	errSoldOut  = errors.New("sold out")
)

// create makes a session. Its id follows from the agent's key, so that a second attempt,
// after a crash, makes no second session.
func (s *shop) create(ctx context.Context, owner string, wanted []want) (session, error) {
	lines, err := s.price(ctx, wanted)
	if err != nil {
		return session{}, err
	}
	text, err := json.Marshal(lines)
	if err != nil {
		return session{}, err
	}
	id := sessionID(core.DeriveKey(ctx, "session"))
	_, err = s.db.ExecContext(ctx, `INSERT INTO sessions (id, owner, lines, status, operation) VALUES (?, ?, ?, ?, '')
		ON CONFLICT DO NOTHING`, id, owner, text, ready)
	if err != nil {
		return session{}, err
	}
	return load(ctx, s.db, owner, id)
}

func sessionID(derived string) string { return "cs_" + derived[:16] }

// update replaces the lines of a session.
func (s *shop) update(ctx context.Context, owner, id string, wanted []want) (session, error) {
	lines, err := s.price(ctx, wanted)
	if err != nil {
		return session{}, err
	}
	return s.change(ctx, owner, id, func(_ *sql.Tx, found *session) error {
		found.Lines = lines
		return found.mustBeReady()
	})
}

// cancel ends a session that is not completed.
func (s *shop) cancel(ctx context.Context, owner, id string) (session, error) {
	operation := core.DeriveKey(ctx, "cancel")
	return s.change(ctx, owner, id, func(_ *sql.Tx, found *session) error {
		if found.Status == canceled && found.operation == operation {
			return nil // by an earlier attempt, which crashed
		}
		err := found.mustBeReady()
		found.Status, found.operation = canceled, operation
		return err
	})
}

// complete buys the lines of a session: it reserves the stock, charges, and records the order.
// A crash may end it at any point, and the next attempt of the same request continues:
//   - reserve and place are transactions that know their operation, which all attempts share;
//   - a charge whose result is recorded is not repeated (core.Step);
//   - a charge whose result is not recorded is repeated with the same derived key, and the
//     provider returns the first one. A provider without idempotency keys has to be asked
//     for the charge first, in a policy.Recover.
func (s *shop) complete(ctx context.Context, owner, id, token string) (session, error) {
	found, err := s.reserve(ctx, owner, id)
	if errors.Is(err, errSoldOut) {
		found.Refused = outOfStock
		return found, nil
	}
	if err != nil || found.Status == completed {
		return found, err
	}
	charge, err := core.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return s.charge(ctx, core.DeriveKey(ctx, "charge"), token, found.total())
	})
	switch {
	case failure.IsPermanent(err): // the card is declined, in every attempt
		return s.reopen(ctx, owner, id)
	case err != nil:
		return found, err
	}
	return s.place(ctx, owner, id, charge)
}

// reserve takes the lines from the stock. Of any number of requests one may complete the
// session, also under different keys.
func (s *shop) reserve(ctx context.Context, owner, id string) (session, error) {
	operation := core.DeriveKey(ctx, "complete")
	return s.change(ctx, owner, id, func(tx *sql.Tx, found *session) error {
		if found.operation == operation && found.Status != ready {
			return nil // by an earlier attempt, which crashed
		}
		if err := found.mustBeReady(); err != nil {
			return err
		}
		if err := move(ctx, tx, found.Lines, -1); err != nil {
			return err
		}
		found.Status, found.operation = completing, operation
		return nil
	})
}

// reopen returns the lines to the stock, after the card was declined.
func (s *shop) reopen(ctx context.Context, owner, id string) (session, error) {
	operation := core.DeriveKey(ctx, "complete")
	found, err := s.change(ctx, owner, id, func(tx *sql.Tx, found *session) error {
		if err := found.mustBelongTo(operation); err != nil {
			return err
		}
		found.Status, found.operation = ready, ""
		return move(ctx, tx, found.Lines, 1)
	})
	found.Refused = paymentDeclined
	return found, err
}

// place records the order.
func (s *shop) place(ctx context.Context, owner, id, charge string) (session, error) {
	operation := core.DeriveKey(ctx, "complete")
	return s.change(ctx, owner, id, func(tx *sql.Tx, found *session) error {
		if err := found.mustBelongTo(operation); err != nil {
			return err
		}
		found.Status, found.Order = completed, "ord_"+operation[:16]
		_, err := tx.ExecContext(ctx, `INSERT INTO orders (id, session, charge, amount) VALUES (?, ?, ?, ?)`,
			found.Order, id, charge, found.total())
		return err
	})
}

// mustBelongTo returns an error if the session went on without this attempt. A process that
// freezes for longer than its lease comes back so late.
func (s *session) mustBelongTo(operation string) error {
	if s.Status != completing || s.operation != operation {
		return errBusy
	}
	return nil
}

func (s *session) mustBeReady() error {
	switch s.Status {
	case ready:
		return nil
	case completing:
		return errBusy
	default:
		return errClosed
	}
}

// move changes the stock by the lines, in the given direction.
func move(ctx context.Context, tx *sql.Tx, lines []line, direction int64) error {
	for _, l := range lines {
		change := direction * l.Quantity
		moved, err := tx.ExecContext(ctx, `UPDATE items SET stock = stock + ? WHERE id = ? AND stock + ? >= 0`, change, l.Item, change)
		if err != nil {
			return err
		}
		if count, err := moved.RowsAffected(); err != nil || count == 0 {
			return errors.Join(err, errSoldOut)
		}
	}
	return nil
}

// price looks the items up.
func (s *shop) price(ctx context.Context, wanted []want) ([]line, error) {
	var lines []line
	for _, one := range wanted {
		l := line{Item: one.id, Quantity: one.quantity}
		err := s.db.QueryRowContext(ctx, `SELECT title, price FROM items WHERE id = ?`, one.id).Scan(&l.Title, &l.Price)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, &invalidError{unavailable, one.path, "the shop has no item " + one.id}
		case err != nil:
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}
