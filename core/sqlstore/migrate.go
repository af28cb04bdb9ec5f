package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
)

// Migration is one version step of the tables.
type Migration struct {
	// Version counts from 1, without gaps.
	Version int
	// Name is the subject of the step.
	Name string
	// SQL has several statements. Each ends in a semicolon at the end of a line, and has
	// no other semicolon. The last one adds the version.
	SQL string
}

// Migrations returns all steps of a dialect in order, for use with another migration
// tool, such as Flyway or Atlas. [Migrate] continues after the last step of such a tool, and
// the tool after the last step of Migrate.
func Migrations(dialect Dialect, options ...Option) []Migration {
	s := configured(nil, dialect, options)
	var migrations []Migration
	for _, step := range s.dialect.Migrations(s.table) {
		migrations = append(migrations, Migration(step))
	}
	return migrations
}

// Migrate brings the table to this version. Call it before the first program of a new
// version serves requests. Every instance may call it at start: one instance migrates,
// and the others wait, in MySQL for at most a minute. If the table has this version or a
// newer one, Migrate changes no table. The name of the table, with _migrations after it,
// names the table of the versions that have run. In the end Migrate proves that the table
// has the columns, types and the key of this version, see [Store.Check].
//
// Migrate needs the right to create tables and indexes. The store needs SELECT, INSERT,
// UPDATE and DELETE on its table, and no right to the table of the versions.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect, options ...Option) error {
	s := New(db, dialect, options...)
	err := s.records.Retry(ctx, func() error {
		_, err := ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.migrate(ctx) })
		return err
	})
	switch {
	case err == nil:
		return nil
	case faultOf(err).mixedUp(err):
		err = s.explained(err)
	}
	return fmt.Errorf("sqlstore: migrate by the dialect %s: %w", s.dialect.name, err)
}

func (s *Store) migrate(ctx context.Context) error {
	connection, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	return s.dialect.Migrate(ctx, session{connection}, s.table)
}

// session is a connection or a pool for statements without parameters.
type session struct{ database }

// Run implements [sqlrows.Session].
func (s session) Run(ctx context.Context, text string) error {
	_, err := s.ExecContext(ctx, text)
	return err
}

// Each implements [sqlrows.Session].
func (s session) Each(ctx context.Context, text string, take func(scan func(into ...any) error) error) error {
	rows, err := s.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	return errors.Join(sqlrows.Take(rows, take), rows.Close())
}
