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
// Version 3 creates a function in PL/pgSQL. There are semicolons in its body,
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
// database; the rest takes the right to create in the schema. A store then needs
// USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its table records, and
// EXECUTE on its function claim, which everybody has unless the database's default
// privileges say otherwise.
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
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "oncekey migrations of "+s.schema); err != nil {
			return err
		}
		current, err := s.versionOfTables(ctx, tx)
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

// versionOfTables is 0 when there are none. It creates the schema.
func (s *Store) versionOfTables(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var schemaExists, tableExists bool
	err = tx.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
	EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'migrations')`, s.schema).Scan(&schemaExists, &tableExists)
	switch {
	case err != nil:
		return 0, err
	case !schemaExists:
		_, err = tx.Exec(ctx, inSchema(s.schema, `CREATE SCHEMA {schema}`))
		return 0, err
	case !tableExists:
		return 0, nil
	default:
		err = tx.QueryRow(ctx, inSchema(s.schema, `SELECT coalesce(max(version), 0) FROM {schema}.migrations`)).Scan(&version)
		return version, err
	}
}
