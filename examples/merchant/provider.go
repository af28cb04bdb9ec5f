package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/failure"
)

// charger charges an amount in cents, once for each key, and returns the charge's id. An
// error that is permanent is the card's refusal. After any other error the charge may have
// been made: the next call with the key tells.
type charger func(ctx context.Context, key, token string, amount int64) (charge string, err error)

// The test tokens. Every other token is charged at once.
const (
	tokenDeclined = "tok_declined"
	tokenSlow     = "tok_slow" // charged after slowness
)

const slowness = 5 * time.Second

var errDeclined = errors.New("card was declined")

// provider stands for a payment provider. It takes an idempotency key, as payment providers
// do: a second call with the key returns the first charge. Its table is not the merchant's.
type provider struct{ db *sql.DB }

const providerTables = `CREATE TABLE IF NOT EXISTS provider_charges (
	key TEXT PRIMARY KEY, id TEXT NOT NULL, amount INTEGER NOT NULL)`

func (p *provider) charge(ctx context.Context, key, token string, amount int64) (charge string, err error) {
	switch token {
	case tokenDeclined:
		return "", failure.Permanent(errDeclined)
	case tokenSlow:
		select {
		case <-time.After(slowness):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	_, err = p.db.ExecContext(ctx, `INSERT INTO provider_charges (key, id, amount) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		key, "ch_"+key[:16], amount)
	if err == nil {
		err = p.db.QueryRowContext(ctx, `SELECT id FROM provider_charges WHERE key = ?`, key).Scan(&charge)
	}
	return charge, err
}

// showCharges responds to GET /charges with the provider's charges. It requires no login,
// which suits only an example.
func (s *shop) showCharges(w http.ResponseWriter, r *http.Request) {
	rows, err := s.db.QueryContext(r.Context(), `SELECT id, amount FROM provider_charges ORDER BY id`)
	if err != nil {
		http.Error(w, "the charges cannot be read", http.StatusInternalServerError)
		return
	}
	defer rows.Close()
	type charge struct {
		ID     string `json:"id"`
		Amount int64  `json:"amount"`
	}
	all := []charge{}
	for rows.Next() {
		var one charge
		if err = rows.Scan(&one.ID, &one.Amount); err != nil {
			break
		}
		all = append(all, one)
	}
	if err = errors.Join(err, rows.Err()); err != nil {
		http.Error(w, "the charges cannot be read", http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, all)
}
