package sqlstore

import (
	"context"
	"database/sql"
	"errors"
)

// postgresqlOther looks for the table that package pgstore has by default.
const postgresqlOther = `
SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
	WHERE n.nspname = 'oncekey' AND c.relname = 'records' AND c.relkind IN ('r', 'p'))`

var errOtherStore = errors.New(`this database has the table oncekey.records of package pgstore, and this store keeps its records in oncekey_records: ` +
	`the two share no keys, and a retry that reaches the other one would run again; use one package for the service, or, ` +
	`for another service or a table that is not in use, name the table by sqlstore.Table or drop the other one`)

// refuseOther returns an error if a store of package pgstore keeps records in this
// database, unless the program has named the table (case 99).
func (s *Store) refuseOther(ctx context.Context, row func(ctx context.Context, query string, values ...any) *sql.Row) error {
	if s.named || s.dialect.other == "" {
		return nil
	}
	_, err := ask(ctx, s, func() (other bool, err error) {
		err = row(ctx, s.dialect.other).Scan(&other)
		if err == nil && other {
			err = errOtherStore
		}
		return other, err
	})
	return err
}
