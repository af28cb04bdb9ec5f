package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// Case 97: a table that is not the migrations' is refused by Check, by Migrate and by the
// first claim, and the error names the column, found and expected. A claim that is tried
// when the table is mended succeeds.
func TestTableIsProven(t *testing.T) {
	t.Parallel()
	const withoutKey = `ALTER TABLE oncekey.records DROP CONSTRAINT records_pkey`
	for _, test := range []struct {
		name, change, mend string
		want               []string // in the error; none: the table does
	}{
		{"without its primary key", withoutKey, `ALTER TABLE oncekey.records ADD PRIMARY KEY (key)`, []string{"column key", "primary key"}},
		{"with a key of two columns", withoutKey + `; ALTER TABLE oncekey.records ADD PRIMARY KEY (key, token)`, `CREATE UNIQUE INDEX ON oncekey.records (key)`, []string{"column key", "primary key"}},
		{"with a key of some rows", withoutKey + `; CREATE UNIQUE INDEX ON oncekey.records (key) WHERE attempt > 1`, `CREATE UNIQUE INDEX ON oncekey.records (key)`, []string{"column key"}},
		{"with a deferred key", withoutKey + `; ALTER TABLE oncekey.records ADD PRIMARY KEY (key) DEFERRABLE`, withoutKey + `; ALTER TABLE oncekey.records ADD PRIMARY KEY (key)`, []string{"column key"}},
		{"without a column", `ALTER TABLE oncekey.records DROP COLUMN digest`, `ALTER TABLE oncekey.records ADD COLUMN digest uuid`, []string{"column digest", "found none", "expected uuid"}},
		{"with another type", `ALTER TABLE oncekey.records ALTER header TYPE text`, `ALTER TABLE oncekey.records ALTER header TYPE jsonb USING header::jsonb`, []string{"column header", "found text", "expected jsonb"}},
		{"with a narrow column", `ALTER TABLE oncekey.records ALTER origin TYPE varchar(20)`, `ALTER TABLE oncekey.records ALTER origin TYPE text`, []string{"column origin", "found character varying(20)", "expected text"}},
		{"with a column that takes no null", `ALTER TABLE oncekey.records ALTER status SET NOT NULL`, `ALTER TABLE oncekey.records ALTER status DROP NOT NULL`, []string{"column status", "NOT NULL"}},
		{"with a column that the store does not fill", `ALTER TABLE oncekey.records ADD tenant text NOT NULL`, `ALTER TABLE oncekey.records DROP tenant`, []string{"column tenant"}},

		{"with a column of a later version", `ALTER TABLE oncekey.records ADD tenant text, ADD region text NOT NULL DEFAULT 'eu'`, ``, nil},
		{"with a unique index in place of the key", withoutKey + `; CREATE UNIQUE INDEX ON oncekey.records (key)`, ``, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store, pool := open(t)
			execute(t, pool, test.change)
			_, _, claimed := store.Acquire(t.Context(), claim("key"))
			for call, err := range map[string]error{
				"Acquire": claimed, "Check": store.Check(t.Context()), "Migrate": pgstore.Migrate(t.Context(), pool),
			} {
				if test.want == nil {
					must(t, err)
					continue
				}
				if !errors.Is(err, storage.ErrNotStorable) {
					t.Errorf("%s returned %v, want ErrNotStorable", call, err)
					continue
				}
				for _, part := range append(test.want, `table "oncekey".records`) {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s returned %v, want %q in it", call, err, part)
					}
				}
			}
			if test.want != nil {
				execute(t, pool, test.mend)
				win(t, store, claim("key"))
			}
		})
	}
}

// Case 97: PostgreSQL cuts a longer name off, and two services would share their records.
func TestNameOfASchemaThatIsTooLong(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	schema := pgstore.Schema(strings.Repeat("ü", 31) + "s")
	must(t, pgstore.Migrate(t.Context(), pool, schema))
	must(t, pgstore.New(pool, schema).Check(t.Context()))
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "63") || !strings.Contains(text, "64") {
			t.Errorf("a name of 64 bytes panicked with %q, want the limit and the length", text)
		}
	}()
	pgstore.Schema(strings.Repeat("ü", 32))
}
