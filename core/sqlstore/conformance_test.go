package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

const unit = 400 * time.Millisecond

func TestConformance(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		open := s.opener(t, narrowForItsCases)
		storetest.Run(t, storetest.Config{New: func(t testing.TB) storage.Store { return open(t) }, Unit: unit, TooLarge: tooLarge})
	})
}

// tooLarge is a size that a narrow table refuses.
const tooLarge = 2<<20 + 1

// narrowForItsCases is narrow in the cases about such texts alone: MySQL copies a table to which it adds a constraint.
func narrowForItsCases(t testing.TB, db *sql.DB, table string) {
	t.Helper()
	if strings.Contains(t.Name(), "too_large") {
		narrow(t, db, table)
	}
}

// narrow lets a table refuse texts of tooLarge bytes. SQLite adds no constraint to a table.
func narrow(t testing.TB, db *sql.DB, table string) {
	t.Helper()
	const narrow = `length(body) < %[2]d AND length(steps) < %[2]d`
	if _, err := db.ExecContext(t.Context(), fmt.Sprintf(`ALTER TABLE %[1]s ADD CHECK (`+narrow+`)`, table, tooLarge)); err == nil {
		return
	}
	for _, write := range []string{"INSERT", "UPDATE"} {
		execute(t, db, fmt.Sprintf(`CREATE TRIGGER narrow_%[3]s BEFORE %[3]s ON %[1]s WHEN NOT (length(NEW.body) < %[2]d AND length(NEW.steps) < %[2]d)
			BEGIN SELECT RAISE(ABORT, 'too long'); END`, table, tooLarge, write))
	}
}

func TestConformanceOfSQLite(t *testing.T) {
	t.Parallel()
	if testkit.RaceDetector {
		t.Skip("the race detector makes SQLite ten times slower, and TestConformance runs under it")
	}
	over(t, inProcess, func(t *testing.T, s setUp) {
		open := s.opener(t, narrowForItsCases)
		storetest.Run(t, storetest.Config{New: func(t testing.TB) storage.Store { return open(t) }, Unit: unit, Wrap: synctest.Test, TooLarge: tooLarge})
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

// Rows that released versions have written keep their meaning, in each database.
func TestGoldenRows(t *testing.T) {
	t.Parallel()
	var released []golden.StoredRow
	golden.Each(t, "rows.jsonl", func(t *testing.T) (all []golden.StoredRow) {
		t.Helper()
		store, db := sqliteWAL.open(t)
		golden.Tombstone(t, store)
		age(t, db, 3*time.Hour)
		if _, err := store.Sweep(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		golden.Fill(t, store)
		for _, row := range golden.Rows(t, db, "SELECT * FROM "+sqlstore.DefaultTable+" ORDER BY record_key") {
			key := (*row["record_key"])[len("text "):]
			all = append(all, golden.Stored(t, store, key, row))
		}
		return all
	}, func(_ *testing.T, row golden.StoredRow) { released = append(released, row) })
	over(t, all, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		for _, row := range released {
			row.Row.Insert(t, db, sqlstore.DefaultTable, func(n int) string {
				if s.database == "postgresql" {
					return fmt.Sprintf("$%d", n)
				}
				return "?"
			})
			golden.Want(t, golden.Stored(t, store, row.Key, row.Row), row)
		}
	})
}

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		open := s.opener(t)
		config := storetest.Config{New: func(t testing.TB) storage.Store { return open(t) }, Unit: unit}
		if s.start == nil { // it works in the process
			config.Wrap = synctest.Test
		}
		storetest.RunLimiter(t, config)
	})
}

// A sweep removes the count of a scope that has had no key for long, and no other one.
func TestSweepRemovesCounts(t *testing.T) {
	t.Parallel()
	over(t, inProcess, func(t *testing.T, s setUp) {
		synctest.Test(t, func(t *testing.T) {
			store, db := s.open(t)
			for scope, ttl := range []time.Duration{time.Minute, 24 * time.Hour} {
				place := storage.Place{Scope: fmt.Sprintf("%064x", scope), Token: storage.NewToken()}
				_, err := store.Admit(t.Context(), place, ttl, storage.ScopeLimit{InFlight: 1, NewKeys: 1, Window: time.Minute})
				must(t, err)
			}
			time.Sleep(3 * time.Hour) //nolint:forbidigo // in a bubble
			sweeps(t, store, 1)
			counts(t, db, 1, `SELECT count(*) FROM oncekey_records`)
		})
	})
}
