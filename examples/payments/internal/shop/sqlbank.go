package shop

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/sqlstore"
)

// mysqlTables are the tables of the bank in MySQL, as in tables.sql.
var mysqlTables = []string{
	`CREATE TABLE IF NOT EXISTS payments_accounts (name VARCHAR(200) PRIMARY KEY, balance BIGINT NOT NULL CHECK (balance >= 0)) COLLATE utf8mb4_bin`,
	`CREATE TABLE IF NOT EXISTS payments_transfers (
	number BIGINT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(20) NOT NULL, payer VARCHAR(200) NOT NULL, payee VARCHAR(200) NOT NULL,
	amount BIGINT NOT NULL CHECK (amount > 0), requester VARCHAR(200) NOT NULL, request_key VARCHAR(255) NOT NULL,
	UNIQUE (requester, request_key)) COLLATE utf8mb4_bin`,
	`INSERT IGNORE INTO payments_accounts (name, balance) VALUES ('alice', 10000), ('bob', 10000), ('carol', 10000)`,
}

// execute runs a statement in the transaction of a request, and returns the number of rows that it has changed.
type execute func(ctx context.Context, statement string, arguments ...any) (changed int64, err error)

// inPostgres is the transaction of pgstore.
func inPostgres(ctx context.Context) (execute, error) {
	tx, err := pgstore.Tx(ctx)
	return func(ctx context.Context, statement string, arguments ...any) (int64, error) {
		tag, err := tx.Exec(ctx, numbered(statement), arguments...)
		return tag.RowsAffected(), err
	}, err
}

// inMySQL is the transaction of sqlstore.
func inMySQL(ctx context.Context) (execute, error) {
	tx, err := sqlstore.Tx(ctx)
	return func(ctx context.Context, statement string, arguments ...any) (int64, error) {
		result, err := tx.ExecContext(ctx, statement, arguments...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}, err
}

// sqlBank is a bank in tables of PostgreSQL or MySQL.
type sqlBank struct {
	db *sql.DB
	in func(context.Context) (execute, error)
}

func (b *sqlBank) Move(ctx context.Context, t Transfer) error {
	do, err := b.in(ctx)
	if err != nil {
		return err
	}
	// A refusal is a response too, and is committed with the handler's writes. The savepoint
	// undoes the writes before the refusal.
	if _, err := do(ctx, `SAVEPOINT transfer`); err != nil {
		return explain(ctx, err)
	}
	err = t.move(ctx, do)
	if err == nil {
		return nil
	}
	if _, undoErr := do(ctx, `ROLLBACK TO SAVEPOINT transfer`); undoErr != nil {
		return explain(ctx, undoErr)
	}
	return err
}

func (t Transfer) move(ctx context.Context, do execute) error {
	for _, p := range t.postings() {
		changed, err := do(ctx, `UPDATE payments_accounts SET balance = balance + ? WHERE name = ?`, p.amount, p.account)
		switch {
		case codeOf(err) == checkViolation:
			return errInsufficient
		case err != nil:
			return explain(ctx, err)
		case changed == 0:
			return errUnknownAccount(p.account)
		}
	}
	_, err := do(ctx, `
INSERT INTO payments_transfers (id, payer, payee, amount, requester, request_key) VALUES (?, ?, ?, ?, ?, ?)`,
		t.ID, t.From, t.To, t.Amount, UserFrom(ctx), core.KeyFrom(ctx))
	switch {
	case codeOf(err) == uniqueViolation:
		return errMovedBefore(ctx, t)
	case err != nil:
		return explain(ctx, err)
	}
	return nil
}

func (b *sqlBank) Balances(ctx context.Context) (map[string]int64, error) {
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

func (b *sqlBank) Transfers(ctx context.Context) ([]Transfer, error) {
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

// The codes of SQLSTATE, as PostgreSQL has them in appendix A of its manual.
const (
	checkViolation      = "23514"
	uniqueViolation     = "23505"
	textCannotBeEncoded = "22021"
)

// mysqlCodes are the codes for the error numbers of MySQL, and of MariaDB where its number is another.
var mysqlCodes = map[uint16]string{3819: checkViolation, 4025: checkViolation, 1062: uniqueViolation}

// codeOf returns the code of the server's own error, or an empty string.
func codeOf(err error) string {
	if refused, is := errors.AsType[*pgconn.PgError](err); is {
		return refused.Code
	}
	if refused, is := errors.AsType[*mysql.MySQLError](err); is {
		return mysqlCodes[refused.Number]
	}
	return ""
}
