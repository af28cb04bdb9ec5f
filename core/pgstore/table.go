package pgstore

import (
	"context"
	"encoding/json"

	"github.com/oncekey/oncekey/core/internal/schema"
)

// column returns a column that every row fills, or that takes null.
func column(name, kind string, null bool) schema.Column {
	return schema.Column{Name: name, Types: []string{kind}, Null: null}
}

// recordsTable is the table records, as the migrations create it.
var recordsTable = schema.Table{Key: "key", Columns: []schema.Column{
	column("key", "text", false),
	column("version", "smallint", false),
	column("state", "text", false),
	column("attempt", "bigint", false),
	column("took_over", "boolean", false),
	column("token", "uuid", false),
	column("fingerprint", "text", false),
	column("digest", "uuid", true),
	column("digest_token", "uuid", true),
	column("origin", "text", true),
	column("origin_token", "uuid", true),
	column("lease_until", "timestamp with time zone", true),
	column("retain_until", "timestamp with time zone", true),
	column("retain_hour", "timestamp with time zone", true),
	column("expires_at", "timestamp with time zone", false),
	column("sweep_after", "timestamp without time zone", false),
	column("claimed_at", "timestamp with time zone", false),
	column("settled_at", "timestamp with time zone", true),
	column("status", "smallint", true),
	column("header", "jsonb", true),
	column("body", "bytea", true),
	column("sketch", "bytea", true),
	column("sketch_token", "uuid", true),
	column("steps", "bytea", true),
}}

// columnsOfTable is a subquery for the columns of the table records in schema $1, in JSON:
// name, type, whether it takes null, has a value without the store, and has a unique index
// of its own.
const columnsOfTable = `(
	SELECT coalesce(json_agg(json_build_object('Name', a.attname, 'Type', format_type(a.atttypid, a.atttypmod), 'Null', NOT a.attnotnull,
		'Filled', a.atthasdef OR a.attidentity <> '',
		'Unique', EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indimmediate
			AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum))), '[]')::text
	FROM pg_attribute AS a JOIN pg_class AS t ON t.oid = a.attrelid JOIN pg_namespace AS s ON s.oid = t.relnamespace
	WHERE s.nspname = $1::text AND t.relname = 'records' AND a.attnum > 0 AND NOT a.attisdropped)`

// proveTable reads the table, and returns an error unless it is as expected.
func (s *Store) proveTable(ctx context.Context, db querier) error {
	var columns string
	if err := db.QueryRow(ctx, `SELECT `+columnsOfTable, s.schema).Scan(&columns); err != nil {
		return err
	}
	return s.prove(columns)
}

// prove returns an error unless the columns of columnsOfTable are as expected.
func (s *Store) prove(columns string) error {
	var found []schema.Found
	if err := json.Unmarshal([]byte(columns), &found); err != nil {
		return err
	}
	return recordsTable.Prove(inSchema(s.schema, "{schema}.records"), found)
}
