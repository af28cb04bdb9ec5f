package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// Rows that released versions have written keep their meaning.
func TestGoldenRows(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	golden.Each(t, "rows.jsonl", func(t *testing.T) (all []golden.StoredRow) {
		t.Helper()
		golden.Tombstone(t, store)
		execute(t, pool, `UPDATE oncekey_records SET retain_until = retain_until - 10800000000, sweep_after = sweep_after - 10800000000`)
		if _, err := store.Sweep(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		golden.Fill(t, store)
		for _, row := range golden.Rows(t, db, "SELECT * FROM "+pgstore.DefaultTable+" ORDER BY record_key") {
			key := (*row["record_key"])[len("text "):]
			all = append(all, golden.Stored(t, store, key, row))
		}
		execute(t, pool, "DELETE FROM "+pgstore.DefaultTable)
		return all
	}, func(t *testing.T, released golden.StoredRow) {
		t.Helper()
		released.Row.Insert(t, db, pgstore.DefaultTable, func(n int) string { return fmt.Sprintf("$%d", n) })
		golden.Want(t, golden.Stored(t, store, released.Key, released.Row), released)
	})
}
