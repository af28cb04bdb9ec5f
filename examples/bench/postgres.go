package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// bareTables are the tables of the bare statements. A table that is written twice per row
// has room for the second write on the page, like the store's tables.
const bareTables = `
CREATE TABLE IF NOT EXISTS bare (key text COLLATE "C" PRIMARY KEY, payload bytea NOT NULL);
CREATE TABLE IF NOT EXISTS bare_twice (key text COLLATE "C" PRIMARY KEY, payload bytea NOT NULL) WITH (fillfactor = 50)`

// postgresFloor compares the store's steps with the minimal statements.
func postgresFloor(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "PostgreSQL: the store against bare statements",
		Notes: []string{"*Asynchronous claim* is pgstore.AsynchronousClaims. synchronous_commit=off here is the whole session's."},
	}
	if s.postgres == nil {
		section.Text, section.Notes = []string{"Left out: PostgreSQL is not installed."}, nil
		return section, nil
	}
	size, err := s.preparePostgres(ctx)
	if err != nil {
		return section, err
	}
	section.Text = []string{fmt.Sprintf(
		"The same pool and concurrency in each arm. INSERT writes a row of the size of a finished record's (%d bytes), SELECT reads it by its primary key. "+
			"*INSERT, then UPDATE* writes the key first and the rest later, which is the minimum for a claim and a response.", size)}
	for _, commit := range []string{"on", "off"} {
		for _, concurrency := range []int{1, 16} {
			table, targets, err := s.comparePostgres(ctx, commit, concurrency, size)
			if err != nil {
				return section, err
			}
			section.Tables = append(section.Tables, table)
			section.Targets = append(section.Targets, targets...)
		}
	}
	table, targets, err := s.postgresCounts(ctx, size)
	section.Tables, section.Targets = append(section.Tables, table), append(section.Targets, targets...)
	return section, err
}

// pool opens the connections with a given synchronous_commit.
func (s *suite) pool(ctx context.Context, connections int, commit string, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.postgres.DSN)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	config.ConnConfig.RuntimeParams["synchronous_commit"] = commit
	config.ConnConfig.Tracer = tracer
	return pgxpool.NewWithConfig(ctx, config)
}

// preparePostgres makes the tables, and returns the row size of a finished record.
func (s *suite) preparePostgres(ctx context.Context) (size int, err error) {
	pool, err := s.pool(ctx, 1, "on", nil)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, bareTables); err != nil {
		return 0, err
	}
	claim := newClaim(newKey())
	work := storeWork{ctx, pgstore.New(pool), 1}
	if err := work.finish([]storage.Claim{claim}, newResult()); err != nil {
		return 0, err
	}
	err = pool.QueryRow(ctx, `SELECT pg_column_size(r.*) FROM oncekey.records AS r WHERE key = $1`, claim.Key).Scan(&size)
	return size, err
}

// bareRows writes and reads rows of the size of a record.
type bareRows struct {
	pool    *pgxpool.Pool
	payload []byte
}

// newBareRows subtracts the key and the row's own header from the size.
func newBareRows(pool *pgxpool.Pool, size int) bareRows {
	payload := make([]byte, max(size-64-32, 1))
	rand.Read(payload) // rand.Read never fails
	return bareRows{pool, payload}
}

func (b bareRows) insert(ctx context.Context, key string) error {
	_, err := b.pool.Exec(ctx, `INSERT INTO bare (key, payload) VALUES ($1, $2)`, key, b.payload)
	return err
}

// insertTwice is the minimum for a record that exists before its response.
func (b bareRows) insertTwice(ctx context.Context, key string) error {
	if _, err := b.pool.Exec(ctx, `INSERT INTO bare_twice (key, payload) VALUES ($1, '')`, key); err != nil {
		return err
	}
	_, err := b.pool.Exec(ctx, `UPDATE bare_twice SET payload = $2 WHERE key = $1`, key, b.payload)
	return err
}

func (b bareRows) read(ctx context.Context, key string) error {
	var payload []byte
	return b.pool.QueryRow(ctx, `SELECT payload FROM bare WHERE key = $1`, key).Scan(&payload)
}

func (s *suite) comparePostgres(ctx context.Context, commit string, concurrency, size int) (report.Table, []report.Target, error) {
	table := report.Table{Head: []string{"arm", "operations/s", "x bare INSERT", "x bare SELECT"}}
	pool, err := s.pool(ctx, concurrency, commit, nil)
	if err != nil {
		return table, nil, err
	}
	defer pool.Close()
	arms, err := postgresArms(ctx, pool, concurrency, size)
	if err != nil {
		return table, nil, err
	}
	c, err := harness.Compare(ctx, s.plan(0), arms)
	if err != nil {
		return table, nil, err
	}
	s.summary.postgres(commit, concurrency, c)
	where := fmt.Sprintf("synchronous_commit=%s, %d at once", commit, concurrency)
	table.Caption = where + "; operations per second, and their ratio to the bare statements'; A/A control " + report.Interval(c.Control())
	for _, arm := range arms {
		table.Rows = append(table.Rows, []string{
			arm.Name, report.Number(float64(int(1e9 / c.Median(arm.Name).Time))),
			report.Interval(c.Ratio("INSERT", arm.Name)), report.Interval(c.Ratio("SELECT", arm.Name)),
		})
	}
	targets := []report.Target{report.AtLeast(where+": replay : bare SELECT", 0.7, c.Ratio("SELECT", "replay"))}
	if commit == "on" {
		targets = append(targets,
			report.AtLeast(where+": first : bare INSERT", 0.45, c.Ratio("INSERT", "first (acquire and settle)")),
			report.AtLeast(where+": first, asynchronous claim : bare INSERT", 0.55, c.Ratio("INSERT", "first, asynchronous claim")))
	}
	return table, targets, nil
}

func postgresArms(ctx context.Context, pool *pgxpool.Pool, concurrency, size int) ([]harness.Arm, error) {
	rows, work := newBareRows(pool, size), storeWork{ctx, pgstore.New(pool), concurrency}
	asynchronous := storeWork{ctx, pgstore.New(pool, pgstore.AsynchronousClaims()), concurrency}
	known := newClaim(newKey())
	if err := rows.insert(ctx, known.Key); err != nil {
		return nil, err
	}
	if err := work.finish([]storage.Claim{known}, newResult()); err != nil {
		return nil, err
	}
	writes := func(name string, write func(context.Context, string) error) harness.Arm {
		var claims []storage.Claim
		return harness.Arm{
			Name:    name,
			Prepare: func(n int) error { claims = newClaims(n); return nil },
			Run: func(n int) error {
				return harness.Parallel(concurrency, n, func(_, i int) error { return write(ctx, claims[i].Key) })
			},
		}
	}
	return []harness.Arm{
		writes("INSERT", rows.insert), writes("INSERT, then UPDATE", rows.insertTwice),
		{Name: "SELECT", Run: func(n int) error {
			return harness.Parallel(concurrency, n, func(_, _ int) error { return rows.read(ctx, known.Key) })
		}},
		work.acquireArm("acquire", nil), work.settleArm("settle", nil), work.firstArm("first (acquire and settle)", nil),
		asynchronous.firstArm("first, asynchronous claim", nil), work.replayArm("replay", always(known)),
	}, nil
}

// postgresCounts counts values without noise: statements, and bytes of WAL.
func (s *suite) postgresCounts(ctx context.Context, size int) (report.Table, []report.Target, error) {
	table := report.Table{Caption: "What has no noise; WAL is the mean of 1000 operations", Head: []string{"operation", "round trips", "bytes of WAL"}}
	tracer := &statementCounter{}
	pool, err := s.pool(ctx, 2, "on", tracer)
	if err != nil {
		return table, nil, err
	}
	defer pool.Close()
	kinds, err := countTrips(ctx, pgstore.New(pool), &tracer.trips)
	if err != nil {
		return table, nil, err
	}
	measured := map[string][2]int{}
	for kind, trips := range kinds {
		measured[kind] = [2]int{trips, -1}
	}
	if err := s.countWAL(ctx, pool, size, measured); err != nil {
		return table, nil, err
	}
	for _, operation := range []string{"INSERT", "SELECT", "first", "replay", "422", "409"} {
		counts, wal := measured[operation], "not measured"
		if counts[1] >= 0 {
			wal = report.Number(float64(counts[1]))
		}
		table.Rows = append(table.Rows, []string{operation, report.Number(float64(counts[0])), wal})
	}
	return table, []report.Target{
		report.Exactly("round trips, replay", 1, measured["replay"][0]),
		report.Exactly("bytes of WAL, replay", 0, measured["replay"][1]),
	}, nil
}

// countWAL measures the bytes that each operation writes, over so many operations that one
// page more or less has no effect. No other program uses the server.
func (s *suite) countWAL(ctx context.Context, pool *pgxpool.Pool, size int, measured map[string][2]int) error {
	const times = 1000
	rows, work := newBareRows(pool, size), storeWork{ctx, pgstore.New(pool), 1}
	keys := newClaims(2 * times)
	operations := []struct {
		name string
		run  func(i int) error
	}{
		{"INSERT", func(i int) error { return rows.insert(ctx, keys[i].Key) }},
		{"SELECT", func(i int) error { return rows.read(ctx, keys[i].Key) }},
		{"first", func(i int) error { return work.finish(keys[i:i+1], newResult()) }},
		{"replay", func(i int) error { return work.find(keys[i%times]) }},
	}
	for _, operation := range operations {
		// The first write to a page after a checkpoint writes the whole page, and the
		// first read of an updated page may tidy the page. So the first half is not
		// counted, and the second half replays the same keys.
		var written int
		for _, part := range []int{0, times} {
			from, err := walPosition(ctx, pool)
			if err != nil {
				return err
			}
			for i := range times {
				if err := operation.run(part + i); err != nil {
					return fmt.Errorf("%s: %w", operation.name, err)
				}
			}
			if err := pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::bigint`, from).Scan(&written); err != nil {
				return err
			}
		}
		counts := measured[operation.name]
		if operation.name == "INSERT" || operation.name == "SELECT" {
			counts[0] = 1
		}
		measured[operation.name] = [2]int{counts[0], written / times}
	}
	return nil
}

func walPosition(ctx context.Context, pool *pgxpool.Pool) (position string, err error) {
	err = pool.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&position)
	return position, err
}

// statementCounter counts the statements whose result the client waited for.
type statementCounter struct{ trips atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (c *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.trips.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
