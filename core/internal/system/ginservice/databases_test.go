package ginservice

import (
	"context"
	"database/sql"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

var databases = []database{
	overPool("pgstore", func(durable storage.Store) storage.Store { return durable }),
	overPool("tieredstore over pgstore", func(durable storage.Store) storage.Store {
		return tieredstore.New(memstore.New(), durable, tieredstore.Logger(slog.New(slog.DiscardHandler)))
	}),
	overPool("sealedstore over pgstore", func(durable storage.Store) storage.Store {
		return sealedstore.New(durable, testkit.NewGCM(1))
	}),
	overSQL("sqlstore on PostgreSQL", "pgx", sqlstore.PostgreSQL(), postgrestest.Shared),
	overSQL("sqlstore on MariaDB", "mysql", sqlstore.MySQL(), mysqltest.MariaDB.Shared),
}

// queries is a repository over pgx.
type queries struct{ pool *pgxpool.Pool }

func (q queries) Transfer(ctx context.Context, id string) error {
	tx, err := pgstore.Tx(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO transfers VALUES ($1)`, id)
		return err
	}
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO transfers VALUES ($1)`, id)
		return err
	})
}

func overPool(name string, over func(durable storage.Store) storage.Store) database {
	return database{
		name: name, noTransaction: pgstore.ErrNoTransaction,
		tx: func(ctx context.Context) error { _, err := pgstore.Tx(ctx); return err },
		open: func(t *testing.T) (storage.Store, repository, *sql.DB) {
			t.Helper()
			dsn := postgrestest.Shared(t)
			pool := service.Pool(t, dsn)
			testkit.Must(t, pgstore.Migrate(t.Context(), pool))
			return over(pgstore.New(pool)), queries{pool}, openDB(t, "pgx", dsn)
		},
	}
}

// statements is a repository over database/sql.
type statements struct{ db *sql.DB }

func (s statements) Transfer(ctx context.Context, id string) error {
	const insert = `INSERT INTO transfers VALUES ('`
	if tx, err := sqlstore.Tx(ctx); err == nil {
		_, err = tx.ExecContext(ctx, insert+id+`')`)
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, insert+id+`')`); err != nil {
		return err
	}
	return tx.Commit()
}

func overSQL(name, driver string, dialect sqlstore.Dialect, dsn func(testing.TB) string) database {
	return database{
		name: name, noTransaction: sqlstore.ErrNoTransaction,
		tx: func(ctx context.Context) error { _, err := sqlstore.Tx(ctx); return err },
		open: func(t *testing.T) (storage.Store, repository, *sql.DB) {
			t.Helper()
			db := openDB(t, driver, dsn(t))
			testkit.Must(t, sqlstore.Migrate(t.Context(), db, dialect))
			return sqlstore.New(db, dialect), statements{db}, db
		},
	}
}

// openDB opens a database, and makes the table of the transfers.
func openDB(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db := service.SQL(t, driver, dsn)
	_, err := db.ExecContext(t.Context(), `CREATE TABLE transfers (id varchar(40))`)
	testkit.Must(t, err)
	return db
}
