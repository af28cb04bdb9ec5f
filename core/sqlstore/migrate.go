package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
)

// Migration is one version step of the tables.
type Migration struct {
	// Version counts from 1, without gaps.
	Version int
	// Name is the subject of the step.
	Name string
	// SQL has several statements. Each ends in a semicolon at the end of a line, and has
	// no other semicolon.
	SQL string
}

// Migrations returns all steps of a dialect in order, for use with another migration
// tool, such as Flyway or Atlas. The same files are in the folder
// core/internal/sqlrows/migrations, with a place-holder for the table's name. Steps that such a tool has run may
// run again by [Migrate].
func Migrations(dialect Dialect, options ...Option) []Migration {
	s := configured(nil, dialect, options)
	var migrations []Migration
	for _, step := range sqlrows.Migrations(s.dialect.migrations, s.table) {
		migrations = append(migrations, Migration(step))
	}
	return migrations
}

// Migrate brings the table to this version. Call it before the first program of a new
// version serves requests. Every instance may call it at start: one instance migrates,
// and the others wait. If the table has this version or a newer one, Migrate changes no
// table. The name of the table, with _migrations after it, names the table of the
// versions that have run. In the end Migrate proves that the table has the columns, types
// and the key of this version, see [Store.Check].
//
// Migrate needs the right to create tables and indexes. The store needs SELECT, INSERT,
// UPDATE and DELETE on its table, and no right to the table of the versions.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect, options ...Option) error {
	s := New(db, dialect, options...)
	steps := Migrations(dialect, options...)
	err := s.records.Retry(ctx, func() error {
		_, err := ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.migrate(ctx, steps) })
		return err
	})
	if err != nil {
		return fmt.Errorf("sqlstore: migrate: %w", err)
	}
	return nil
}

// migrate runs the missing steps on one connection, under the lock of the dialect.
func (s *Store) migrate(ctx context.Context, migrations []Migration) (err error) {
	connection, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	run := func(ctx context.Context, statements ...string) error {
		for _, statement := range statements {
			if _, err := connection.ExecContext(ctx, s.inTable(statement)); err != nil {
				return err
			}
		}
		return nil
	}
	defer func() {
		if err != nil {
			_ = run(context.WithoutCancel(ctx), s.dialect.undo...) // its error adds no information
		}
	}()
	if err := run(ctx, s.dialect.lock...); err != nil {
		return err
	}
	if err := s.refuseOther(ctx, connection.QueryRowContext); err != nil {
		return err
	}
	if err := run(ctx, `CREATE TABLE IF NOT EXISTS {table}_migrations (version INTEGER NOT NULL PRIMARY KEY)`); err != nil {
		return err
	}
	var current int
	if err := connection.QueryRowContext(ctx, s.inTable(`SELECT coalesce(max(version), 0) FROM {table}_migrations`)).Scan(&current); err != nil {
		return err
	}
	for _, migration := range migrations[min(current, len(migrations)):] {
		added := strings.ReplaceAll(s.dialect.addVersion, "{version}", strconv.Itoa(migration.Version))
		if err := run(ctx, append(split(migration.SQL), added)...); err != nil {
			return fmt.Errorf("version %d (%s): %w", migration.Version, migration.Name, err)
		}
	}
	if err := s.prove(ctx, connection); err != nil { // CREATE TABLE leaves another table of this name as it is
		return err
	}
	return run(ctx, s.dialect.unlock...)
}

// split returns the statements of a migration.
func split(text string) (statements []string) {
	for _, statement := range strings.SplitAfter(text, ";\n") {
		if strings.TrimSpace(statement) != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}
