package sqlstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

const unit = 400 * time.Millisecond

func TestConformance(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		open := s.opener(t)
		storetest.Run(t, storetest.Config{New: func(t testing.TB) storage.Store { return open(t) }, Unit: unit})
	})
}

func TestConformanceOfSQLite(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector makes SQLite ten times slower, and TestConformance runs under it")
	}
	over(t, inProcess, func(t *testing.T, s setUp) {
		open := s.opener(t)
		storetest.Run(t, storetest.Config{New: func(t testing.TB) storage.Store { return open(t) }, Unit: unit, Wrap: synctest.Test})
	})
}

// Each case has a table for the handler beside its records.
func TestTransactions(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		storetest.RunTransactor(t, storetest.TransactorConfig{Unit: unit, New: func(t testing.TB) (storage.Transactor, storetest.Table) {
			store, db := s.open(t)
			execute(t, db, `CREATE TABLE written (id varchar(9))`)
			return store, storetest.Table{
				Write: func(handler context.Context, id string) error {
					tx, err := sqlstore.Tx(handler)
					if err == nil {
						_, err = tx.ExecContext(handler, `INSERT INTO written VALUES ('`+id+`')`)
					}
					return err
				},
				Has: func(ctx context.Context, id string) (has bool, err error) {
					err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM written WHERE id = '`+id+`')`).Scan(&has)
					return has, err
				},
			}
		}})
	})
}
