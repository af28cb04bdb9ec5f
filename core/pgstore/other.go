package pgstore

import (
	"context"
	"errors"
)

// otherExists: the table that package sqlstore has by default is there. A table in a
// schema that the session does not search belongs to another service.
const otherExists = `
EXISTS (SELECT FROM pg_class AS c WHERE c.relname = 'oncekey_records' AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid))`

var errOtherStore = errors.New(`this database has the table oncekey_records of package sqlstore, and this store keeps its records in oncekey.records: ` +
	`the two share no keys, and a retry that reaches the other one would run again; use one package for the service, or, ` +
	`for another service or a table that is not in use, name the schema by pgstore.Schema or drop the table`)

// refuseOther returns an error if a store of package sqlstore keeps records in this
// database, unless the program has named the schema (case 99).
func (s *Store) refuseOther(ctx context.Context, db querier) error {
	if s.named {
		return nil
	}
	var other bool
	err := db.QueryRow(ctx, `SELECT `+otherExists).Scan(&other)
	if err == nil && other {
		err = errOtherStore
	}
	return err
}
