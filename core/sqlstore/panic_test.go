package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
)

// panicking is a driver whose transactions panic at their end, as a program's hooks may.
type panicking struct{ driver.Connector }

func (p panicking) Connect(ctx context.Context) (driver.Conn, error) {
	connection, err := p.Connector.Connect(ctx)
	return panickingConn{connection}, err
}

type panickingConn struct{ driver.Conn }

func (c panickingConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
	return panickingTx{tx}, err
}

type panickingTx struct{ driver.Tx }

func (panickingTx) Commit() error { panic("hook bug") }

func (panickingTx) Rollback() error { panic("hook bug") }

// Case 39: a panic of the driver is an error of the call, on a goroutine of the store too.
func TestPanickingDriverIsAnError(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(storage.Transaction, storage.Lease) error{
		"Commit": func(tx storage.Transaction, l storage.Lease) error {
			return tx.Commit(t.Context(), l, result("answer"))
		},
		"Rollback": func(tx storage.Transaction, _ storage.Lease) error { return tx.Rollback(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := postgresql.dsn(t)
			plain := postgresql.connect(t, dsn)
			must(t, sqlstore.Migrate(t.Context(), plain, postgresql.dialect))
			connector, err := plain.Driver().(driver.DriverContext).OpenConnector(dsn)
			must(t, err)
			db := sql.OpenDB(panicking{connector})
			t.Cleanup(func() { _ = db.Close() })
			store := sqlstore.New(db, postgresql.dialect)
			lease := win(t, store, claim("key"))
			_, tx, err := store.BeginTransaction(t.Context(), lease)
			must(t, err)
			fails(t, name, end(tx, lease), nil, "the SQL driver panicked at ")
		})
	}
}
