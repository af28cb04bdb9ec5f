package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

func growPostgres(ctx context.Context, s *suite, sizes []int) (name string, stores []storage.Store, end func(), err error) {
	if s.postgres == nil {
		return "", nil, func() {}, nil
	}
	pool, err := s.pool(ctx, 4, nil)
	if err != nil {
		return "", nil, func() {}, err
	}
	for _, records := range sizes {
		store, err := fillPostgres(ctx, pool, fmt.Sprintf("growth_%d", records), records, "")
		if err != nil {
			return "", nil, pool.Close, err
		}
		stores = append(stores, store)
	}
	return "pgstore", stores, pool.Close, nil
}

// fillPostgres stores one record, and copies the record to the other keys. The SQL
// expression expires gives the expiry time. A full table stays as it is.
func fillPostgres(ctx context.Context, pool *pgxpool.Pool, table string, records int, expires string) (*pgstore.Store, error) {
	store := pgstore.New(pool, pgstore.Table(table))
	if err := pgstore.Migrate(ctx, pool, pgstore.Table(table)); err != nil {
		return nil, err
	}
	held := 0
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&held); err != nil || held > 0 {
		return store, err
	}
	if err := (storeWork{ctx: ctx, store: store, workers: 1}).finish([]storage.Claim{growthClaim(0)}, newResult()); err != nil {
		return nil, err
	}
	columns, values, err := copied(ctx, pool, table, expires)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM %[1]s AS r, generate_series(1, %[4]d) AS i`,
		table, strings.Join(columns, ", "), strings.Join(values, ", "), records-1)); err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, `VACUUM ANALYZE `+table)
	return store, err
}

// copied returns the columns to write in a table of records, and for each column the SQL
// value for the copy of row r under key i.
func copied(ctx context.Context, pool *pgxpool.Pool, table, expires string) (columns, values []string, err error) {
	rows, err := pool.Query(ctx, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position`, table)
	if err != nil {
		return nil, nil, err
	}
	columns, err = pgx.CollectRows(rows, pgx.RowTo[string])
	for _, column := range columns {
		switch column {
		case "record_key":
			values = append(values, `encode(sha256(('growth ' || i)::bytea), 'hex')`)
		case "expires_at", "sweep_after":
			values = append(values, cmp.Or(expires, "r."+column))
		default:
			values = append(values, "r."+column)
		}
	}
	return columns, values, err
}

// measurePostgresSweep sweeps once. A repetition would need a refilled table.
func (s *suite) measurePostgresSweep(ctx context.Context, section *report.Section) error {
	pool, err := s.pool(ctx, 4, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	table := report.Table{
		Caption: "pgstore's Sweep of expired records: a single measurement each", Head: []string{"batch", "removed", "records/s"},
	}
	for _, batch := range []int{100, 1000, 10_000} {
		store, err := fillPostgres(ctx, pool, fmt.Sprintf("sweep_%d", batch), s.records/5, "1")
		if err != nil {
			return err
		}
		start := time.Now()
		removed, err := store.Sweep(ctx, batch)
		if err != nil {
			return err
		}
		table.Rows = append(table.Rows, []string{
			fmt.Sprint(batch), fmt.Sprint(removed), report.Number(float64(int(float64(removed) / time.Since(start).Seconds()))),
		})
	}
	section.Tables = append(section.Tables, table)
	return nil
}
