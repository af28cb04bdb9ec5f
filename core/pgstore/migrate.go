package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/storage"
)

// migrationFiles follow the rules in the README of their folder.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one version step of the tables.
type Migration struct {
	// Version counts from 1, without gaps.
	Version int
	// Name is the subject of the step.
	Name string
	// SQL has several statements for one transaction. The last statement adds the
	// version to the table migrations.
	SQL string
}

// Migrations returns all steps in order, for use with another migration tool. The
// steps create tables in the schema, see [Schema], which must exist. [Migrate]
// continues after the last step of such a tool, and the tool after the last step of
// Migrate.
//
// Versions 3 to 6 create functions in PL/pgSQL. Their bodies, between $claim$ and
// $claim$, have semicolons, so a tool that splits at semicolons must treat a body as
// one statement.
func Migrations(options ...Option) []Migration {
	s := configured(nil, options)
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic("pgstore: " + err.Error()) // only a malformed pattern fails
	}
	migrations := make([]Migration, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			panic("pgstore: " + err.Error()) // the file is embedded
		}
		number, title, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			panic("pgstore: " + name + " is out of order")
		}
		migrations[i] = Migration{Version: version, Name: title, SQL: inSchema(s.schema, string(text))}
	}
	return migrations
}

// Migrate brings the tables to this version, in one transaction. Call it before the
// first program of a new version serves requests. Every instance may call it at
// start: one instance migrates, and the others wait. If the tables have this version
// or a newer one, Migrate changes no table. In the end Migrate proves that the table
// records has the columns, types and the key of this version, see [Store.Check].
//
// Rights of the role that migrates: CREATE on the database, if the schema does not
// exist; CREATE on the schema; for later versions, ownership of the tables. If the
// tables have this version already, Migrate needs USAGE on the schema and SELECT on
// its table migrations.
//
// Rights of a store's role: USAGE on the schema; SELECT, INSERT, UPDATE and DELETE on
// its table records; EXECUTE on its functions, which every role has unless the
// database's default privileges differ. For a missing right, Migrate and the store
// return an error that wraps [storage.ErrStoreForbidden] and names the GRANT.
//
// Migrate leaves the tables of a newer version unchanged. Every version only adds
// parts that older versions can ignore. So old and new programs can use the tables
// side by side during a deploy, and can restart in any order. A store with older
// tables returns errors that ask for Migrate.
//
// Migrate waits up to three seconds for a lock on tables that are in use. After that
// it returns an error and has changed no table. It can be run again. Version 5 builds
// an index, for which requests wait. For a large table, docs/postgres.md has
// statements that build the index before.
func Migrate(ctx context.Context, pool *pgxpool.Pool, options ...Option) error {
	s := New(pool, options...)
	err := s.migrate(ctx, Migrations(options...))
	if err == nil {
		err = s.proveTable(ctx, s.unprepared(pool))
	}
	if err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	return nil
}

func (s *Store) migrate(ctx context.Context, migrations []Migration) error {
	// Read committed: after the wait for the lock, the statements see the rows that
	// the previous migration has committed.
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		db := s.unprepared(tx)
		if _, err := db.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))`, "oncekey migrations of "+s.schema); err != nil {
			return err
		}
		if err := s.refuseOther(ctx, db); err != nil {
			return err
		}
		current, err := s.versionOfTables(ctx, db, len(migrations))
		if err != nil {
			return err
		}
		for _, migration := range migrations[min(current, len(migrations)):] {
			if _, err := tx.Exec(ctx, migration.SQL); err != nil {
				return fmt.Errorf("version %d (%s): %w", migration.Version, migration.Name, err)
			}
		}
		return nil
	})
}

// tablesStatement reads which parts of schema $1 exist, and the rights of the
// session's role. A right to a part that does not exist counts as held.
const tablesStatement = `
SELECT current_user::text, current_database()::text, n.oid IS NOT NULL, m.oid IS NOT NULL,
	has_database_privilege(current_database(), 'CREATE'),
	coalesce(has_schema_privilege(n.oid, 'USAGE'), true),
	coalesce(has_schema_privilege(n.oid, 'CREATE'), true),
	coalesce(has_table_privilege(m.oid, 'SELECT'), true),
	coalesce(pg_get_userbyid(r.relowner)::text, ''),
	coalesce(pg_has_role(r.relowner, 'USAGE'), true)
FROM (SELECT) AS one
	LEFT JOIN pg_namespace AS n ON n.nspname = $1::text
	LEFT JOIN pg_class AS m ON m.relnamespace = n.oid AND m.relname = 'migrations'
	LEFT JOIN pg_class AS r ON r.relnamespace = n.oid AND r.relname = 'records'`

const versionStatement = `SELECT coalesce(max(version), 0)::bigint FROM {schema}.migrations`

// tables are the existing parts of the schema, and the rights of the session's role.
type tables struct {
	role, database, owner                            string
	schemaExists, tableExists                        bool
	createSchemas, usage, create, selects, ownsTable bool
}

// versionOfTables returns the version of the tables, or 0 without tables. It creates
// the schema. It returns an error that names a right that the role lacks for the
// migration to version want (case 44).
func (s *Store) versionOfTables(ctx context.Context, db querier, want int) (version int, err error) {
	var t tables
	err = db.QueryRow(ctx, tablesStatement, s.schema).Scan(&t.role, &t.database, &t.schemaExists, &t.tableExists,
		&t.createSchemas, &t.usage, &t.create, &t.selects, &t.owner, &t.ownsTable)
	if err != nil {
		return 0, err
	}
	if grant := t.missingToLook(); grant != "" {
		return 0, forbidden(t.role, []string{inSchema(s.schema, grant)})
	}
	if !t.schemaExists {
		_, err = db.Exec(ctx, inSchema(s.schema, `CREATE SCHEMA {schema}`))
		return 0, err
	}
	if t.tableExists {
		err = db.QueryRow(ctx, inSchema(s.schema, versionStatement)).Scan(&version)
	}
	if err == nil && version < want {
		err = s.mayMigrate(t, version, want)
	}
	return version, err
}

// missingToLook returns the GRANT that the role lacks to read the version or to
// create the schema.
func (t tables) missingToLook() string {
	switch {
	case !t.schemaExists && !t.createSchemas:
		return "GRANT CREATE ON DATABASE " + pgx.Identifier{t.database}.Sanitize()
	case !t.usage:
		return "GRANT USAGE ON SCHEMA {schema}"
	case !t.selects:
		return "GRANT SELECT ON {schema}.migrations"
	default:
		return ""
	}
}

func (s *Store) mayMigrate(t tables, version, want int) error {
	switch {
	case !t.ownsTable:
		return fmt.Errorf("%w: the tables are at version %d and this program needs %d, run pgstore.Migrate as their owner, role %q",
			storage.ErrStoreForbidden, version, want, t.owner)
	case !t.create:
		return forbidden(t.role, []string{inSchema(s.schema, "GRANT CREATE ON SCHEMA {schema}")})
	default:
		return nil
	}
}
