package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

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
