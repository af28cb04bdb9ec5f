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

// migrationFiles follow the rules of the README beside them.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one step of the tables' history.
type Migration struct {
	// Version counts from 1, without gaps.
	Version int
	// Name says what it is about.
	Name string
	// SQL is several statements, to be run in one transaction. The last of them
	// notes in the table migrations that this version is there.
	SQL string
}

// Migrations returns all steps in their order, for those who run them with a tool
// of their own. They create tables in the schema, see [Schema], and expect that it
// exists. [Migrate] goes on where such a tool has ended, and the other way round.
//
// Versions 3 and 4 create a function in PL/pgSQL. There are semicolons in its body,
// between $claim$ and $claim$: a tool that cuts at semicolons must be told so.
func Migrations(options ...Option) []Migration {
	s := configured(nil, options)
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic("pgstore: " + err.Error()) // of a malformed pattern only
	}
	migrations := make([]Migration, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			panic("pgstore: " + err.Error()) // it was embedded
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

// Migrate brings the tables to this version, in one transaction: all of it
// happens or nothing. It does nothing when they are there already, so every
// instance may call it when it starts: one of them works, the others wait.
//
// The schema is created unless it exists, which takes the right to create in the
// database; the rest takes the right to create in the schema, and later versions take
// the tables' owner. Where the tables are there already Migrate takes USAGE on the
// schema and SELECT on its table migrations.
//
// A store needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its table
// records, and EXECUTE on its functions, which every role has unless the database's
// default privileges say otherwise. A right that is missing is an error, of Migrate
// and of the store, that wraps [storage.ErrStoreForbidden] and names the GRANT.
//
// Tables that a newer version has migrated stay as they are: every version adds
// only what older ones can do without, so that old and new programs can use them
// side by side while a service is deployed, and start again in any order. A store
// whose tables are older than itself returns errors that say to run Migrate: so
// migrate before the first new program serves.
//
// A migration of tables that are in use waits up to three seconds for a lock on
// them, and is an error then: nothing has changed, and it can be run again.
func Migrate(ctx context.Context, pool *pgxpool.Pool, options ...Option) error {
	if err := New(pool, options...).migrate(ctx, Migrations(options...)); err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	return nil
}

func (s *Store) migrate(ctx context.Context, migrations []Migration) error {
	// Read committed, so that what is seen after the wait for the lock is what the
	// one before has committed.
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		db := s.unprepared(tx)
		if _, err := db.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))`, "oncekey migrations of "+s.schema); err != nil {
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

// tablesStatement asks which parts of schema $1 exist, and what the session's role
// may do with them. A right to something that does not exist is not missing.
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

// tables are what the session's role can see and do.
type tables struct {
	role, database, owner                            string
	schemaExists, tableExists                        bool
	createSchemas, usage, create, selects, ownsTable bool
}

// versionOfTables is 0 when there are none. It creates the schema. A right that the
// role lacks to get to version want is an error that names it (case 44).
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
		err = db.QueryRow(ctx, inSchema(s.schema, `SELECT coalesce(max(version), 0)::bigint FROM {schema}.migrations`)).Scan(&version)
	}
	if err == nil && version < want {
		err = s.mayMigrate(t, version, want)
	}
	return version, err
}

// missingToLook is the grant without which the version cannot be read, or the
// schema not be created.
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
