package golden

import (
	"database/sql"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Row is a row of a table by its columns. A value is "int 1", "text a", "bytes " and base64, or nil.
type Row map[string]*string

// Rows returns the rows that a query finds.
func Rows(t *testing.T, db *sql.DB, query string) (all []Row) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, places := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			places[i] = &values[i]
		}
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		row := make(Row)
		for i, column := range columns {
			row[column] = written(t, values[i])
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func written(t *testing.T, value any) *string {
	t.Helper()
	var text string
	switch value := value.(type) {
	case nil:
		return nil
	case int64:
		text = "int " + strconv.FormatInt(value, 10)
	case string:
		text = "text " + value
	case []byte:
		text = "bytes " + base64.StdEncoding.EncodeToString(value)
	default:
		t.Fatalf("a column has the type %T", value)
	}
	return &text
}

// Insert adds the row to a table. The placeholder is that of the n-th argument, from 1.
func (r Row) Insert(t *testing.T, db *sql.DB, table string, placeholder func(n int) string) {
	t.Helper()
	columns := slices.Sorted(maps.Keys(r))
	places, values := make([]string, len(columns)), make([]any, len(columns))
	for i, column := range columns {
		places[i], values[i] = placeholder(i+1), read(t, r[column])
	}
	statement := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(columns, ", "), strings.Join(places, ", "))
	if _, err := db.ExecContext(t.Context(), statement, values...); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, text *string) (value any) {
	t.Helper()
	if text == nil {
		return nil
	}
	kind, rest, _ := strings.Cut(*text, " ")
	var err error
	switch kind {
	case "int":
		value, err = strconv.ParseInt(rest, 10, 64)
	case "bytes":
		value, err = base64.StdEncoding.DecodeString(rest)
	default:
		value = rest
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}
