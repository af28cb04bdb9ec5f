package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// footprint is the mean cost of a row at the server: bytes, transactions, and how often the
// server waited for its WAL to be on disk.
type footprint struct{ heap, index, wal, transactions, syncs float64 }

// weighedName is the application name of the connections whose work is weighed.
const weighedName = "weighed"

// measureDisk writes records to empty tables, and weighs them. Autovacuum is off meanwhile,
// because its own WAL would count.
func (s *suite) measureDisk(ctx context.Context, section *report.Section, rows bareRows) error {
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s&application_name=%s&pool_max_conns=%d", s.postgres.DSN, weighedName, postgresPool))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := setAutovacuum(ctx, pool, false); err != nil {
		return err
	}
	rows.pool = pool
	records := s.records / 50
	table := report.Table{
		Caption: fmt.Sprintf("Bytes, transactions and waits for the disk at the server, for each of %d records, in tables that were empty", records),
		Head:    []string{"operation", "heap", "indexes", "WAL", "transactions", "fsyncs of WAL"},
	}
	for _, callers := range postgresCallers {
		bare, err := weighRows(ctx, s.postgres.DSN, pool, "TRUNCATE bare", "bare", records, func(claims []storage.Claim) error {
			return harness.Parallel(callers, records, func(_, i int) error { return rows.insert(ctx, claims[i].Key) })
		})
		if err != nil {
			return err
		}
		table.Rows = append(table.Rows, bare.row(fmt.Sprintf("%s, %d at once", insertArm, callers)))
	}
	for _, callers := range postgresCallers {
		for _, fill := range []int{usualFill, 50} {
			rows, err := s.weighRecords(ctx, pool, callers, records, fill)
			if err != nil {
				return err
			}
			table.Rows = append(table.Rows, rows...)
		}
	}
	section.Tables = append(section.Tables, table)
	return setAutovacuum(ctx, pool, true)
}

// usualFill is the fillfactor of the store's table.
const usualFill = 25

// weighRecords weighs the store's records in a table with a fillfactor. Replays do not depend on it.
func (s *suite) weighRecords(ctx context.Context, pool *pgxpool.Pool, callers, records, fill int) ([][]string, error) {
	name := fmt.Sprintf("disk_%d_%d", callers, fill)
	if err := pgstore.Migrate(ctx, pool, pgstore.Table(name)); err != nil {
		return nil, err
	}
	work := storeWork{ctx: ctx, store: pgstore.New(pool, pgstore.Table(name)), workers: callers}
	var known []storage.Claim
	setFill := fmt.Sprintf("ALTER TABLE %s SET (fillfactor = %d)", name, fill)
	first, err := weighRows(ctx, s.postgres.DSN, pool, setFill, name, records, func(claims []storage.Claim) error {
		known = claims
		return work.finish(claims, newResult())
	})
	if err != nil || fill != usualFill {
		return [][]string{first.row(fmt.Sprintf("first, %d at once, fillfactor %d", callers, fill))}, err
	}
	// The first read of an updated page may tidy the page, so the second read counts.
	var replay footprint
	for range 2 {
		if replay, err = weighRows(ctx, s.postgres.DSN, pool, "CHECKPOINT", name, records, func([]storage.Claim) error {
			return harness.Parallel(callers, records, func(_, i int) error { return work.find(known[i]) })
		}); err != nil {
			return nil, err
		}
	}
	s.results.figures[diskFigure(callers)] = first.heap + first.index
	s.results.figures[walFigure(callers)] = first.wal
	s.results.figures[replayWAL] = max(s.results.figures[replayWAL], replay.wal)
	return [][]string{
		first.row(fmt.Sprintf("first, %d at once", callers)),
		append([]string{fmt.Sprintf("replay, %d at once", callers), "", ""}, replay.row("")[3:]...),
	}, nil
}

const replayWAL = "bytes of WAL of a replay"

func diskFigure(callers int) string { return fmt.Sprintf("bytes on disk, %d at once", callers) }

func walFigure(callers int) string { return fmt.Sprintf("bytes of WAL, %d at once", callers) }

func (f footprint) row(name string) []string {
	return []string{name, report.Number(f.heap), report.Number(f.index), report.Number(f.wal), report.Number(f.transactions), report.Number(f.syncs)}
}

// counters are the server's, since it started.
type counters struct{ wal, transactions, syncs int64 }

// countAll reads the counters when no connection of the pool is open, because a server
// process counts its transactions for all to see when it ends.
func countAll(ctx context.Context, c *pgx.Conn, pool *pgxpool.Pool) (n counters, err error) {
	pool.Reset()
	if err := until(ctx, func() (ended bool, err error) {
		err = c.QueryRow(ctx, `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1`, weighedName).Scan(&ended)
		return ended, err
	}); err != nil {
		return n, err
	}
	err = c.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, d.xact_commit, coalesce((to_jsonb(w) ->> 'wal_sync')::bigint, 0)
		FROM pg_stat_database AS d, pg_stat_wal AS w WHERE d.datname = current_database()`).Scan(&n.wal, &n.transactions, &n.syncs)
	return n, err
}

// weighRows returns the cost of n new rows in a table. It runs the statement before. Its own
// connection makes few transactions.
func weighRows(ctx context.Context, dsn string, pool *pgxpool.Pool, before, table string, n int, write func([]storage.Claim) error) (f footprint, err error) {
	connection, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return f, err
	}
	defer connection.Close(ctx)
	if _, err := connection.Exec(ctx, before); err != nil {
		return f, err
	}
	claims := newClaims(n)
	from, err := countAll(ctx, connection, pool)
	if err != nil {
		return f, err
	}
	if err := write(claims); err != nil {
		return f, err
	}
	to, err := countAll(ctx, connection, pool)
	if err != nil {
		return f, err
	}
	var heap, index int64
	err = connection.QueryRow(ctx, `SELECT pg_table_size($1::regclass), pg_indexes_size($1::regclass)`, table).Scan(&heap, &index)
	mean := func(total int64) float64 { return float64(total / int64(n)) }
	share := func(total int64) float64 { return math.Round(100*float64(total)/float64(n)) / 100 }
	return footprint{mean(heap), mean(index), mean(to.wal - from.wal), share(to.transactions - from.transactions), share(to.syncs - from.syncs)}, err
}

// setAutovacuum switches autovacuum, and waits until its processes have started or ended.
func setAutovacuum(ctx context.Context, pool *pgxpool.Pool, on bool) error {
	setting := map[bool]string{true: "on", false: "off"}[on]
	for _, statement := range []string{"ALTER SYSTEM SET autovacuum = " + setting, "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return until(ctx, func() (done bool, err error) {
		err = pool.QueryRow(ctx, `SELECT (count(*) > 0) = $1 FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'`, on).Scan(&done)
		return done, err
	})
}

// until asks again and again, with pauses.
func until(ctx context.Context, ask func() (bool, error)) error {
	for {
		if done, err := ask(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
