package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"

	"github.com/oncekey/oncekey/core/internal/schema"
)

// kind is a kind of a column, for which each dialect has types.
type kind int

const (
	keyText kind = iota
	word
	small
	big
	token
	bytesOf // short
	text    // short
	longBytes
	longText
)

// columns are those of every dialect, as the migrations create them.
var columns = []struct {
	name string
	kind kind
	null bool
}{
	{"record_key", keyText, false},
	{"version", small, false},
	{"state", word, false},
	{"attempt", big, false},
	{"took_over", small, false},
	{"token", token, false},
	{"revision", big, false},
	{"fingerprint", bytesOf, false},
	{"digest", token, true},
	{"origin", text, true},
	{"lease_until", big, true},
	{"retain_until", big, true},
	{"expires_at", big, false},
	{"sweep_after", big, false},
	{"claimed_at", big, false},
	{"settled_at", big, true},
	{"status", small, true},
	{"header", longText, true},
	{"body", longBytes, true},
	{"sketch", bytesOf, true},
	{"steps", longBytes, true},
}

// The types of each dialect, in the words of its catalog.
var (
	postgresqlTypes = map[kind][]string{
		keyText: {"character varying(64)", "text"}, word: {"character varying(16)", "text"}, small: {"smallint"}, big: {"bigint"},
		token: {"bytea"}, bytesOf: {"bytea"}, text: {"text"}, longBytes: {"bytea"}, longText: {"text"},
	}
	mysqlTypes = map[kind][]string{
		keyText: {"varchar(64)"}, word: {"varchar(16)"}, small: {"smallint"}, big: {"bigint"}, token: {"binary(16)"},
		bytesOf: {"blob", "mediumblob", "longblob"}, text: {"text", "mediumtext", "longtext"}, longBytes: {"longblob"}, longText: {"longtext"},
	}
	sqliteTypes = map[kind][]string{
		keyText: {"TEXT"}, word: {"TEXT"}, small: {"INTEGER"}, big: {"INTEGER"}, token: {"BLOB"}, bytesOf: {"BLOB"}, text: {"TEXT"},
		longBytes: {"BLOB"}, longText: {"TEXT"},
	}
)

// expected is the table of a dialect.
func (d *dialect) expected() *schema.Table {
	table := &schema.Table{Key: columns[0].name}
	for _, c := range columns {
		table.Columns = append(table.Columns, schema.Column{Name: c.name, Types: d.types[c.kind], Null: c.null})
	}
	return table
}

// The queries for the columns of a table: name, type, whether it takes null, has a value
// without the store, and has a unique index of its own.
const (
	postgresqlTable = `
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.atthasdef OR a.attidentity <> '',
	EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indimmediate
		AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_attribute AS a WHERE a.attrelid = to_regclass('{table}') AND a.attnum > 0 AND NOT a.attisdropped`

	mysqlTable = `
SELECT c.column_name, c.column_type, c.is_nullable = 'YES', c.column_default IS NOT NULL OR c.extra <> '',
	EXISTS (SELECT 1 FROM information_schema.statistics AS s WHERE s.table_schema = c.table_schema AND s.table_name = c.table_name
		AND s.column_name = c.column_name AND s.non_unique = 0 AND s.seq_in_index = 1 AND s.sub_part IS NULL
		AND NOT EXISTS (SELECT 1 FROM information_schema.statistics AS o WHERE o.table_schema = s.table_schema
			AND o.table_name = s.table_name AND o.index_name = s.index_name AND o.seq_in_index = 2))
FROM information_schema.columns AS c WHERE c.table_schema = coalesce(nullif('{schema}', ''), database()) AND c.table_name = '{name}'`

	sqliteTable = `
SELECT c.name, upper(c.type), c."notnull" = 0, c.dflt_value IS NOT NULL,
	EXISTS (SELECT 1 FROM pragma_index_list('{table}') AS l WHERE l."unique" = 1 AND l.partial = 0
		AND (SELECT group_concat(i.name) FROM pragma_index_info(l.name) AS i) = c.name)
FROM pragma_table_info('{table}') AS c`
)

// displayWidth is what MariaDB says beside a type of integers.
var displayWidth = regexp.MustCompile(`^(smallint|bigint)\(\d+\)$`)

// prove returns an error unless the table is as expected. The caller asks the driver.
func (s *Store) prove(ctx context.Context, on interface {
	QueryContext(ctx context.Context, text string, values ...any) (*sql.Rows, error)
},
) (err error) {
	place, name, qualified := strings.Cut(s.table, ".")
	if !qualified {
		place, name = "", s.table
	}
	query := strings.NewReplacer("{table}", s.table, "{schema}", place, "{name}", name).Replace(s.dialect.describe)
	rows, err := on.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	var found []schema.Found
	for rows.Next() {
		var f schema.Found
		if err := rows.Scan(&f.Name, &f.Type, &f.Null, &f.Filled, &f.Unique); err != nil {
			return err
		}
		f.Type = displayWidth.ReplaceAllString(f.Type, "$1")
		found = append(found, f)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	return s.dialect.expected().Prove(s.table, found)
}
