package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// errNoTable reports a table that does not exist yet, or that the role cannot see.
var errNoTable = errors.New("there is none that this role can see")

// rightsStatement reads the role of the session, its backend, whether it may write at all, and the rights that it lacks to
// a table in a schema, or in the search path. It reads the catalogs, which are open to every
// role. to_regclass would fail without USAGE.
const rightsStatement = `
SELECT current_user::text, pg_backend_pid()::bigint, current_setting('transaction_read_only')::boolean, c.oid IS NOT NULL, has_schema_privilege(n.oid, 'USAGE') IS FALSE,
	concat_ws(', ', CASE WHEN NOT has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END, CASE WHEN NOT has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
		CASE WHEN NOT has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END, CASE WHEN NOT has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END)
FROM (SELECT) AS one LEFT JOIN pg_namespace AS n ON n.nspname = lower('{schema}')
	LEFT JOIN pg_class AS c ON c.relname = lower('{name}')
		AND CASE WHEN '{schema}' = '' THEN pg_table_is_visible(c.oid) ELSE c.relnamespace = n.oid END`

// checkRights returns the process id of the backend, and an error that names the rights that
// the store needs and the role does not have, or for a missing table.
func (s *Store) checkRights(ctx context.Context, on session) (backend int64, err error) {
	schema, name := sqlrows.NameOf(s.table)
	var role, onTable string
	var readOnly, there, noUsage bool
	text := strings.NewReplacer("{schema}", schema, "{name}", name).Replace(rightsStatement)
	if err := on.one(ctx, text, &role, &backend, &readOnly, &there, &noUsage, &onTable); err != nil {
		return 0, err
	}
	s.readOnly.Store(readOnly)
	var grants []string
	to := " TO " + pgx.Identifier{role}.Sanitize()
	if noUsage {
		grants = append(grants, "GRANT USAGE ON SCHEMA "+schema+to)
	}
	if onTable != "" {
		grants = append(grants, "GRANT "+onTable+" ON "+s.table+to)
	}
	switch {
	case len(grants) > 0:
		err = fmt.Errorf("%w: role %q lacks a right, run: %s", storage.ErrStoreForbidden, role, strings.Join(grants, "; "))
	case !there:
		err = s.notMigrated(errNoTable)
	}
	return backend, err
}
