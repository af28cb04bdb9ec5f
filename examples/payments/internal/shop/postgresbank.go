package shop

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
)

// postgresBank is a bank in the tables of tables.sql.
type postgresBank struct{ pool *pgxpool.Pool }

func (*postgresBank) Move(ctx context.Context, t Transfer) error {
	tx, err := pgstore.Tx(ctx)
	if err != nil {
		return err
	}
	// A refusal is a response too, and is committed with the handler's writes. The savepoint
	// undoes the writes before the refusal.
	return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return t.inPostgres(ctx, savepoint) })
}

func (t Transfer) inPostgres(ctx context.Context, tx pgx.Tx) error {
	for _, p := range t.postings() {
		changed, err := tx.Exec(ctx, `UPDATE payments.accounts SET balance = balance + $2 WHERE name = $1`, p.account, p.amount)
		switch {
		case codeOf(err) == checkViolation:
			return errInsufficient
		case err != nil:
			return explain(ctx, err)
		case changed.RowsAffected() == 0:
			return errUnknownAccount(p.account)
		}
	}
	_, err := tx.Exec(ctx, `
INSERT INTO payments.transfers (id, "from", "to", amount, "user", key) VALUES ($1, $2, $3, $4, $5, $6)`,
		t.ID, t.From, t.To, t.Amount, UserFrom(ctx), core.KeyFrom(ctx))
	switch {
	case codeOf(err) == uniqueViolation:
		return errMovedBefore(ctx, t)
	case err != nil:
		return explain(ctx, err)
	}
	return nil
}

func (b *postgresBank) Balances(ctx context.Context) (map[string]int64, error) {
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

func (b *postgresBank) Transfers(ctx context.Context) ([]Transfer, error) {
	rows, err := b.pool.Query(ctx, `SELECT id, "from", "to", amount, 'done' FROM payments.transfers ORDER BY number`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Transfer])
}
