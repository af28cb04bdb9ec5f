package sqlstore_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// otherTables are tables that a schema tool, or a hand, may have made in place of the
// migrations' one: by a change of the migration, and a statement after it.
var otherTables = []struct {
	name         string
	old, changed string // the old is a regular expression
	after        string
	want         []string // in the error; none: the table does
}{
	{"without its primary key", ` PRIMARY KEY`, ``, ``, []string{"record_key", "primary key"}},
	{"with a key of two columns", ` PRIMARY KEY`, ``, `CREATE UNIQUE INDEX two ON oncekey_records (record_key, token)`, []string{"record_key", "primary key"}},
	{"with an index that is not unique", ` PRIMARY KEY`, ``, `CREATE INDEX one ON oncekey_records (record_key)`, []string{"record_key", "primary key"}},
	{"without a column", `\n\tdigest [^\n]*`, ``, ``, []string{"digest", "found none"}},
	{"with a column of another type", `\n\tbody [^\n]*`, "\n\tbody varchar(9),", ``, []string{"column body", "(9)", "expected"}},
	{"with a number as text", `\n\tattempt [^\n]*`, "\n\tattempt varchar(9) NOT NULL,", ``, []string{"column attempt", "expected"}},
	{"with a column that takes no null", `(\n\tlease_until +\w+),`, `$1 NOT NULL,`, ``, []string{"lease_until", "NOT NULL"}},
	{"with a column that the store does not fill", `\n\tversion `, "\n\ttenant varchar(9) NOT NULL,\n\tversion ", ``, []string{"column tenant"}},

	{"with a unique index in place of the key", ` PRIMARY KEY`, ``, `CREATE UNIQUE INDEX one ON oncekey_records (record_key)`, nil},
	{"with a column of a later version", `\n\tversion `, "\n\ttenant varchar(9),\n\tregion varchar(9) NOT NULL DEFAULT 'eu',\n\tversion ", ``, nil},
	{"with a column that the database computes", `\n\tversion `, "\n\tshape varchar(16) GENERATED ALWAYS AS (lower(state)) STORED,\n\tversion ", ``, nil},
	{"as it was migrated", `^`, ``, ``, nil},
}

// Case 97: a table that is not the migrations' is refused by Check, by Migrate and by the
// first claim, and the error names the column, found and expected.
func TestTableIsProven(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		for _, test := range otherTables {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				db := s.connect(t, s.dsn(t))
				text := ""
				for _, step := range sqlstore.Migrations(s.dialect) {
					text += step.SQL
				}
				text = regexp.MustCompile(test.old).ReplaceAllString(text, test.changed)
				for _, statement := range append(strings.SplitAfter(text, ";\n"), test.after) {
					if strings.TrimSpace(statement) != "" {
						execute(t, db, statement)
					}
				}
				store := sqlstore.New(db, s.dialect)
				_, _, claimed := store.Acquire(t.Context(), claim("key"))
				for call, err := range map[string]error{
					"Acquire": claimed, "Check": store.Check(t.Context()), "Migrate": sqlstore.Migrate(t.Context(), db, s.dialect),
				} {
					if test.want == nil {
						must(t, err)
						continue
					}
					fails(t, call, err, storage.ErrNotStorable, append(test.want, "table oncekey_records")...)
				}
				testkit.Equal(t, queryOne[int](t, db, `SELECT count(*) FROM oncekey_records`) == 0, test.want != nil, "whether the table is empty")
			})
		}
	})
}

// Case 97: the first claim after the table is mended succeeds, and proves no more.
func TestTableIsProvenAgain(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		execute(t, db, `ALTER TABLE oncekey_records ADD tenant varchar(9)`)
		execute(t, db, `ALTER TABLE oncekey_records DROP COLUMN sketch`)
		_, _, err := store.Acquire(t.Context(), claim("key"))
		fails(t, "Acquire", err, storage.ErrNotStorable)
		kind := map[string]string{"postgresql": "bytea", "mysql": "blob"}[s.database]
		execute(t, db, `ALTER TABLE oncekey_records ADD sketch `+kind)
		finish(t, store, "key")
		execute(t, db, `ALTER TABLE oncekey_records DROP COLUMN steps`)
		win(t, store, claim("key2"))
	})
}

// MariaDB looks for the table alone: the first claim does not read the files of all tables of
// all databases.
func TestOtherTablesAreNotRead(t *testing.T) {
	t.Parallel()
	over(t, []setUp{mariadb}, func(t *testing.T, s setUp) {
		db := s.connect(t, s.dsn(t))
		tables := sqlrows.MySQLTables()
		queries := map[string]string{"the table's columns": tables.Describe}
		for _, check := range sqlrows.MySQLChecks {
			queries[check.Name] = check.Query
		}
		for _, table := range []string{"oncekey_records", "shop.oncekey_records"} {
			for name, query := range queries {
				for _, plan := range explain(t, db, sqlrows.InTable(table, query)) {
					if strings.Contains(plan, "Scanned") && !strings.Contains(plan, "Scanned 0 databases") {
						t.Errorf("%s of %s: the plan is %q", name, table, plan)
					}
				}
			}
		}
	})
}

// explain returns the last columns of a query's plan.
func explain(t *testing.T, db *sql.DB, query string) (plans []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+query)
	must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(sql.NullString)
		}
		must(t, rows.Scan(values...))
		plans = append(plans, values[len(values)-1].(*sql.NullString).String)
	}
	must(t, rows.Err())
	return plans
}

// Case 97: the server cuts a longer name off.
func TestNameOfASchemaThatIsTooLong(t *testing.T) {
	t.Parallel()
	for length, dialect := range map[int]sqlstore.Dialect{63: sqlstore.PostgreSQL(), 64: sqlstore.MySQL(), 0: sqlstore.SQLite()} {
		if length > 0 {
			sqlstore.Migrations(dialect, sqlstore.Table(strings.Repeat("s", length)+".records"))
		}
		testkit.Panics(t, map[string]func(){fmt.Sprintf("a schema's name of %d bytes", length+1): func() {
			sqlstore.Migrations(dialect, sqlstore.Table(strings.Repeat("s", length+1)+".records"))
		}})
	}
}
