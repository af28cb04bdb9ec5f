package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// footprint is the mean cost of a row at the server, in bytes.
type footprint struct{ heap, index, wal float64 }

// measureDisk writes records to empty tables, and weighs them. Autovacuum is off meanwhile,
// because its own WAL would count.
func (s *suite) measureDisk(ctx context.Context, section *report.Section, rows bareRows) error {
	pool, err := s.pool(ctx, postgresPool, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := setAutovacuum(ctx, pool, false); err != nil {
		return err
	}
	records := s.records / 50
	table := report.Table{
		Caption: fmt.Sprintf("Bytes at the server for each of %d records, in tables that were empty", records),
		Head:    []string{"operation", "heap", "indexes", "WAL"},
	}
	bare, err := weighRows(ctx, pool, "TRUNCATE bare", "bare", records, func(claims []storage.Claim) error {
		return harness.Parallel(postgresPool, records, func(_, i int) error { return rows.insert(ctx, claims[i].Key) })
	})
	if err != nil {
		return err
	}
	table.Rows = append(table.Rows, bare.row(insertArm))
	for _, callers := range postgresCallers {
		name := fmt.Sprint("disk_", callers)
		if err := pgstore.Migrate(ctx, pool, pgstore.Table(name)); err != nil {
			return err
		}
		work := storeWork{ctx: ctx, store: pgstore.New(pool, pgstore.Table(name)), workers: callers}
		var known []storage.Claim
		first, err := weighRows(ctx, pool, "CHECKPOINT", name, records, func(claims []storage.Claim) error {
			known = claims
			return work.finish(claims, newResult())
		})
		if err != nil {
			return err
		}
		// The first read of an updated page may tidy the page, so the second read counts.
		var replay footprint
		for range 2 {
			if replay, err = weighRows(ctx, pool, "CHECKPOINT", name, records, func([]storage.Claim) error {
				return harness.Parallel(callers, records, func(_, i int) error { return work.find(known[i]) })
			}); err != nil {
				return err
			}
		}
		s.results.figures[diskFigure(callers)] = first.heap + first.index
		s.results.figures[walFigure(callers)] = first.wal
		s.results.figures[replayWAL] = max(s.results.figures[replayWAL], replay.wal)
		table.Rows = append(table.Rows, first.row(fmt.Sprintf("first, %d at once", callers)),
			[]string{fmt.Sprintf("replay, %d at once", callers), "", "", report.Number(replay.wal)})
	}
	section.Tables = append(section.Tables, table)
	return setAutovacuum(ctx, pool, true)
}

const replayWAL = "bytes of WAL of a replay"

func diskFigure(callers int) string { return fmt.Sprintf("bytes on disk, %d at once", callers) }

func walFigure(callers int) string { return fmt.Sprintf("bytes of WAL, %d at once", callers) }

func (f footprint) row(name string) []string {
	return []string{name, report.Number(f.heap), report.Number(f.index), report.Number(f.wal)}
}

// weighRows returns what n new rows in a table cost. It runs the statement before.
func weighRows(ctx context.Context, pool *pgxpool.Pool, before, table string, n int, write func([]storage.Claim) error) (f footprint, err error) {
	if _, err := pool.Exec(ctx, before); err != nil {
		return f, err
	}
	claims := newClaims(n)
	var from string
	if err := pool.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&from); err != nil {
		return f, err
	}
	if err := write(claims); err != nil {
		return f, err
	}
	var heap, index, wal int64
	err = pool.QueryRow(ctx, `SELECT pg_table_size($1::regclass), pg_indexes_size($1::regclass),
		(pg_current_wal_insert_lsn() - $2::text::pg_lsn)::bigint`, table, from).Scan(&heap, &index, &wal)
	mean := func(total int64) float64 { return float64(total / int64(n)) }
	return footprint{mean(heap), mean(index), mean(wal)}, err
}

// setAutovacuum switches autovacuum, and waits until its processes have started or ended.
func setAutovacuum(ctx context.Context, pool *pgxpool.Pool, on bool) error {
	setting := map[bool]string{true: "on", false: "off"}[on]
	for _, statement := range []string{"ALTER SYSTEM SET autovacuum = " + setting, "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	for {
		var runs bool
		if err := pool.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'`).Scan(&runs); err != nil || runs == on {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
