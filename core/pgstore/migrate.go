package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
)

// tables are the words for the tables in PostgreSQL.
var tables = sqlrows.PostgreSQLTables()

// Migration is one version step of the tables.
type Migration struct {
	// Version counts from 1, without gaps.
	Version int
	// Name is the subject of the step.
	Name string
	// SQL has several statements for one transaction. Each ends in a semicolon at the end of
	// a line, and has no other semicolon. The last one adds the version.
	SQL string
}

// Migrations returns all steps in order, for use with another migration tool. They
// create the table of sqlstore.PostgreSQL. [Migrate] continues after the last step of such a
// tool, and the tool after the last step of Migrate.
func Migrations(options ...Option) []Migration {
	var migrations []Migration
	for _, step := range tables.Migrations(configured(nil, options).table) {
		migrations = append(migrations, Migration(step))
	}
	return migrations
}

// Migrate brings the table to this version, in one transaction. Call it before the
// first program of a new version serves requests. Every instance may call it at
// start: one instance migrates, and the others wait. If the table has this version
// or a newer one, Migrate changes no table. In the end it proves that the table has the
// columns, types and the key of this version, see [Store.Check]. The name of the table, with
// _migrations after it, names the table of the versions that have run.
//
// The role that migrates needs CREATE on the schema, which must exist, or, if the table has
// this version, USAGE on it and SELECT on the table of the versions. A store's role needs
// USAGE, and SELECT, INSERT, UPDATE and DELETE on the table of the records. For a missing
// right, Migrate and the store return an error that wraps [storage.ErrStoreForbidden].
//
// Migrate waits up to three seconds for a lock on a table that is in use. After that it
// returns an error and has changed no table. It can be run again.
func Migrate(ctx context.Context, pool *pgxpool.Pool, options ...Option) error {
	s := New(pool, options...)
	err := s.records.Retry(ctx, func() error {
		connection, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer connection.Release()
		return tables.Migrate(ctx, session{s.unprepared(connection)}, s.table)
	})
	if codeOf(err) == undefinedSchema {
		return fmt.Errorf("pgstore: migrate: create the schema of %s first: %w", s.table, err)
	}
	if err != nil {
		return fmt.Errorf("pgstore: migrate: %w", s.explained(err))
	}
	return nil
}
