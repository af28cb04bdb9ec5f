package shop

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/sqlstore"
)

// Error numbers of MySQL, and of MariaDB where its number is another.
const (
	duplicateEntry         = 1062
	checkViolated          = 3819
	checkViolatedInMariaDB = 4025
)

// mysqlTables are the tables of the bank, as in tables.sql.
var mysqlTables = []string{
	`CREATE TABLE IF NOT EXISTS payments_accounts (name VARCHAR(200) PRIMARY KEY, balance BIGINT NOT NULL CHECK (balance >= 0)) COLLATE utf8mb4_bin`,
	`CREATE TABLE IF NOT EXISTS payments_transfers (
	number BIGINT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(20) NOT NULL, payer VARCHAR(200) NOT NULL, payee VARCHAR(200) NOT NULL,
	amount BIGINT NOT NULL CHECK (amount > 0), requester VARCHAR(200) NOT NULL, request_key VARCHAR(255) NOT NULL,
	UNIQUE (requester, request_key)) COLLATE utf8mb4_bin`,
	`INSERT IGNORE INTO payments_accounts (name, balance) VALUES ('alice', 10000), ('bob', 10000), ('carol', 10000)`,
}

// mysqlBank is a bank in the tables of mysqlTables.
type mysqlBank struct{ db *sql.DB }

func (*mysqlBank) Move(ctx context.Context, t Transfer) error {
	tx, err := sqlstore.Tx(ctx)
	if err != nil {
		return err
	}
	// A refusal is a response too, and is committed with the handler's writes. The savepoint
	// undoes the writes before the refusal.
	if _, err := tx.ExecContext(ctx, `SAVEPOINT transfer`); err != nil {
		return explain(ctx, err)
	}
	err = t.inMySQL(ctx, tx)
	if err == nil {
		return nil
	}
	if _, undoErr := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT transfer`); undoErr != nil {
		return explain(ctx, undoErr)
	}
	return err
}

func (t Transfer) inMySQL(ctx context.Context, tx *sql.Tx) error {
	for _, p := range t.postings() {
		result, err := tx.ExecContext(ctx, `UPDATE payments_accounts SET balance = balance + ? WHERE name = ?`, p.amount, p.account)
		if number := numberOf(err); number == checkViolated || number == checkViolatedInMariaDB {
			return errInsufficient
		}
		if err != nil {
			return explain(ctx, err)
		}
		changed, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if changed == 0 {
			return errUnknownAccount(p.account)
		}
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO payments_transfers (id, payer, payee, amount, requester, request_key) VALUES (?, ?, ?, ?, ?, ?)`,
		t.ID, t.From, t.To, t.Amount, UserFrom(ctx), core.KeyFrom(ctx))
	switch {
	case numberOf(err) == duplicateEntry:
		return errMovedBefore(ctx, t)
	case err != nil:
		return explain(ctx, err)
	}
	return nil
}

// numberOf returns the number of the server's own error, or zero.
func numberOf(err error) uint16 {
	if refused, is := errors.AsType[*mysql.MySQLError](err); is {
		return refused.Number
	}
	return 0
}

func (b *mysqlBank) Balances(ctx context.Context) (map[string]int64, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT name, balance FROM payments_accounts`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	balances := make(map[string]int64)
	for rows.Next() {
		var name string
		var balance int64
		if err := rows.Scan(&name, &balance); err != nil {
			return nil, err
		}
		balances[name] = balance
	}
	return balances, rows.Err()
}

func (b *mysqlBank) Transfers(ctx context.Context) ([]Transfer, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT id, payer, payee, amount, 'done' FROM payments_transfers ORDER BY number`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Transfer
	for rows.Next() {
		var t Transfer
		if err := rows.Scan(&t.ID, &t.From, &t.To, &t.Amount, &t.Status); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}
