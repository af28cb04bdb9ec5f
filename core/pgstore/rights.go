package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/storage"
)

// errNotMigrated reports a table or function that does not exist yet.
var errNotMigrated = errors.New("its tables or functions are missing")

// rightsStatement reads the rights of the session's role in schema $1. It reads the
// catalogs, which are open to every role. to_regclass would fail without USAGE.
const rightsStatement = `
SELECT current_user::text, pg_backend_pid()::bigint, r.oid IS NOT NULL AND f.there = 3,
	coalesce(has_schema_privilege(n.oid, 'USAGE'), true),
	coalesce(has_table_privilege(r.oid, 'SELECT'), true),
	coalesce(has_table_privilege(r.oid, 'INSERT'), true),
	coalesce(has_table_privilege(r.oid, 'UPDATE'), true),
	coalesce(has_table_privilege(r.oid, 'DELETE'), true),
	f.closed, ` + columnsOfTable + `, ` + otherExists + `
FROM (SELECT) AS one
	LEFT JOIN pg_namespace AS n ON n.nspname = $1::text
	LEFT JOIN pg_class AS r ON r.relnamespace = n.oid AND r.relname = 'records'
	CROSS JOIN LATERAL (
		SELECT count(*) AS there, coalesce(string_agg(proname::text, ',' ORDER BY proname) FILTER (WHERE NOT has_function_privilege(oid, 'EXECUTE')), '') AS closed
		FROM pg_proc WHERE pronamespace = n.oid AND proname IN ('claim_record', 'claim_many', 'complete_many')) AS f`

// rights are a role's rights, the backend's process id, and whether the tables and
// functions exist.
type rights struct {
	role                                                string
	backend                                             int64
	migrated, usage, selects, inserts, updates, deletes bool
	closed                                              string // functions that the role may not execute, with commas
	columns                                             string // see columnsOfTable
	other                                               bool   // there is the table of another store
}

// rightsOf reads the rights of this connection's role.
func (s *Store) rightsOf(ctx context.Context, db querier) (r rights, err error) {
	err = db.QueryRow(ctx, rightsStatement, s.schema).Scan(
		&r.role, &r.backend, &r.migrated, &r.usage, &r.selects, &r.inserts, &r.updates, &r.deletes, &r.closed, &r.columns, &r.other)
	return r, err
}

// check returns an error for rights that the store needs and the role does not have, and
// for a table that is not as expected.
func (s *Store) check(r rights) error {
	switch missing := s.missing(r); {
	case len(missing) > 0:
		return forbidden(r.role, missing)
	case !r.migrated:
		return s.notMigrated(errNotMigrated)
	case r.other && !s.named:
		return errOtherStore
	default:
		return s.prove(r.columns)
	}
}

// missing returns the missing grants, without their role.
func (s *Store) missing(r rights) (grants []string) {
	var onTable []string
	for _, right := range []struct {
		name string
		held bool
	}{{"SELECT", r.selects}, {"INSERT", r.inserts}, {"UPDATE", r.updates}, {"DELETE", r.deletes}} {
		if !right.held {
			onTable = append(onTable, right.name)
		}
	}
	if !r.usage {
		grants = append(grants, inSchema(s.schema, "GRANT USAGE ON SCHEMA {schema}"))
	}
	if len(onTable) > 0 {
		grants = append(grants, "GRANT "+strings.Join(onTable, ", ")+inSchema(s.schema, " ON {schema}.records"))
	}
	if r.closed != "" {
		grants = append(grants, inSchema(s.schema, "GRANT EXECUTE ON FUNCTION {schema}."+strings.ReplaceAll(r.closed, ",", ", {schema}.")))
	}
	return grants
}

// forbidden returns an error that names the GRANT statements that the role needs.
func forbidden(role string, grants []string) error {
	to := " TO " + pgx.Identifier{role}.Sanitize()
	return fmt.Errorf("%w: role %q lacks a right, run: %s", storage.ErrStoreForbidden, role, strings.Join(grants, to+"; ")+to)
}
