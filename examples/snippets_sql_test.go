package examples_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

type payment struct {
	ID     int64
	Amount int64
}

// payByGORM writes in the handler's transaction.
func payByGORM(ctx context.Context, amount int64) error {
	tx, err := sqlstore.Tx(ctx)
	if err != nil {
		return err
	}
	orm, err := gorm.Open(mysql.New(mysql.Config{Conn: tx, SkipInitializeWithVersion: true}), &gorm.Config{SkipDefaultTransaction: true})
	if err != nil {
		return err
	}
	return orm.WithContext(ctx).Create(&payment{Amount: amount}).Error
}

// payBySQLX does the same, with the mapper of the pool.
func payBySQLX(ctx context.Context, pool *sqlx.DB, amount int64) error {
	tx, err := sqlstore.Tx(ctx)
	if err != nil {
		return err
	}
	bound := &sqlx.Tx{Tx: tx, Mapper: pool.Mapper}
	_, err = bound.NamedExecContext(ctx, `INSERT INTO payments (amount) VALUES (:amount)`, payment{Amount: amount})
	return err
}

// The transaction is an *sql.Tx, which both accept. Here it is SQLite's, because the
// statements are the same, and sqlstore's own tests have the servers.
func TestToolsUseTheTransaction(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	testkit.Must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE payments (id INTEGER PRIMARY KEY, amount INTEGER)`); err != nil {
		t.Fatal(err)
	}
	for _, commits := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context(), nil)
		testkit.Must(t, err)
		handler := storage.WithTransaction(t.Context(), tx)
		if err := payByGORM(handler, 100); err != nil {
			t.Errorf("GORM: %v", err)
		}
		if err := payBySQLX(handler, sqlx.NewDb(db, "mysql"), 200); err != nil {
			t.Errorf("sqlx: %v", err)
		}
		end, want := tx.Rollback, 0
		if commits {
			end, want = tx.Commit, 300
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		var sum int
		if err := db.QueryRowContext(t.Context(), `SELECT coalesce(sum(amount), 0) FROM payments`).Scan(&sum); err != nil || sum != want {
			t.Errorf("after the end of the transaction (commit: %t) the payments are %d (%v), want %d", commits, sum, err, want)
		}
	}
}
