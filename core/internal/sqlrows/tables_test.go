package sqlrows

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/internal/schema"
	"github.com/oncekey/oncekey/internal/testkit"
)

var databases = []Tables{PostgreSQLTables(), MySQLTables(), SQLiteTables()}

// The proof expects each column that the store writes, and no other.
func TestExpectedColumns(t *testing.T) {
	t.Parallel()
	list := regexp.MustCompile(`(?s)\((.*?)\)`).FindStringSubmatch(insertStatement)[1]
	written := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \n\t", r) })
	slices.Sort(written)
	for _, d := range databases {
		var names []string
		for _, c := range d.expected(templates(d.Database)).Columns {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		testkit.EqualSlices(t, names, written, "%s: the columns", d.Database)
	}
}

// A made-up next migration: the proof expects the columns that it adds.
func TestNextMigration(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		next := linesFor(d.Database, "ALTER TABLE {table} ADD COLUMN later {big};\n{"+d.Database+"}ALTER TABLE {table} ADD COLUMN own {word} NOT NULL DEFAULT 'a';\n"+
			"{another}ALTER TABLE {table} ADD COLUMN others {word};\n")
		var found []schema.Found
		for _, c := range d.expected(templates(d.Database)).Columns {
			found = append(found, schema.Found{Name: c.Name, Type: c.Types[0], Null: c.Null, Unique: c.Name == "record_key"})
		}
		expected := d.expected(append(templates(d.Database), Migration{SQL: next}))
		err := expected.Prove("records", found)
		if err == nil || !strings.Contains(err.Error(), "column later: found none") || !strings.Contains(err.Error(), "column own: found none") ||
			strings.Contains(err.Error(), "others") {
			t.Errorf("%s: without the columns of the next migration the proof returned %v", d.Database, err)
		}
		found = append(found, schema.Found{Name: "later", Type: d.Types["big"][0], Null: true}, schema.Found{Name: "own", Type: d.Types["word"][0], Filled: true})
		if err := expected.Prove("records", found); err != nil {
			t.Errorf("%s: with them it returned %v", d.Database, err)
		}
	}
}
