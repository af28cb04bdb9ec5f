package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

// errNoTable reports a table that does not exist yet, or that the role cannot see.
var errNoTable = errors.New("there is none that this role can see")

// rightsStatement reads the rights of the session's role to a table in a schema, or in
// the search path. It reads the catalogs, which are open to every role. to_regclass would
// fail without USAGE.
const rightsStatement = `
SELECT current_user::text, pg_backend_pid()::bigint, c.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'USAGE'), true),
	coalesce(has_table_privilege(c.oid, 'SELECT'), true), coalesce(has_table_privilege(c.oid, 'INSERT'), true),
	coalesce(has_table_privilege(c.oid, 'UPDATE'), true), coalesce(has_table_privilege(c.oid, 'DELETE'), true)
FROM (SELECT) AS one LEFT JOIN pg_namespace AS n ON n.nspname = lower('{schema}')
	LEFT JOIN pg_class AS c ON c.relname = lower('{name}')
		AND CASE WHEN '{schema}' = '' THEN pg_table_is_visible(c.oid) ELSE c.relnamespace = n.oid END`

// rights are a role's rights, the backend's process id, and whether the table exists.
type rights struct {
	role                                             string
	backend                                          int64
	table, usage, selects, inserts, updates, deletes bool
}

// rightsOf reads the rights of this connection's role.
func (s *Store) rightsOf(ctx context.Context, db querier) (r rights, err error) {
	schema, table, qualified := strings.Cut(s.table, ".")
	if !qualified {
		schema, table = "", s.table
	}
	text := strings.NewReplacer("{schema}", schema, "{name}", table).Replace(rightsStatement)
	err = session{db}.one(ctx, text,
		&r.role, &r.backend, &r.table, &r.usage, &r.selects, &r.inserts, &r.updates, &r.deletes)
	return r, err
}

// check returns an error that names the rights that the store needs and the role does not
// have, or for a missing table.
func (s *Store) check(r rights) error {
	var grants, onTable []string
	for _, right := range []struct {
		name string
		held bool
	}{{"SELECT", r.selects}, {"INSERT", r.inserts}, {"UPDATE", r.updates}, {"DELETE", r.deletes}} {
		if !right.held {
			onTable = append(onTable, right.name)
		}
	}
	to := " TO " + pgx.Identifier{r.role}.Sanitize()
	if schema, _, qualified := strings.Cut(s.table, "."); qualified && !r.usage {
		grants = append(grants, "GRANT USAGE ON SCHEMA "+schema+to)
	}
	if len(onTable) > 0 {
		grants = append(grants, "GRANT "+strings.Join(onTable, ", ")+" ON "+s.table+to)
	}
	switch {
	case len(grants) > 0:
		return fmt.Errorf("%w: role %q lacks a right, run: %s", storage.ErrStoreForbidden, r.role, strings.Join(grants, "; "))
	case !r.table:
		return s.notMigrated(errNoTable)
	default:
		return nil
	}
}
