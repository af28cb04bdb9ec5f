package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	// postgresPool is the number of connections that all callers share, in every arm.
	postgresPool = 32
	// knownRecords is the number of records that replays read in turn.
	knownRecords = 1024
	// walFilesPerRound is what the arms of a round write with 256 callers, and some more.
	walFilesPerRound = 4

	insertArm, selectArm = "INSERT", "SELECT"
	recordArm            = "INSERT, then UPDATE, of a record's columns"
	batchedArm           = recordArm + ", in batches"
	firstArmName         = "first (acquire and settle)"
	replayArmName        = "replay"
)

var postgresCallers = []int{1, 16, 64, 256}

func postgresComparison(callers int) string { return fmt.Sprintf("PostgreSQL, %d at once", callers) }

// bareTables are the tables of the bare statements. A table that is written twice per row
// has room for the second write on the page, like the store's tables.
const bareTables = `
CREATE TABLE IF NOT EXISTS bare (key text COLLATE "C" PRIMARY KEY, payload bytea NOT NULL);
CREATE TABLE IF NOT EXISTS bare_twice (key text COLLATE "C" PRIMARY KEY, payload bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS bare_record (LIKE oncekey_records INCLUDING ALL) WITH (fillfactor = 25)`

// postgresFloor compares the store's steps with the minimal statements.
func postgresFloor(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{Title: "PostgreSQL: the store against bare statements"}
	if s.postgres == nil {
		section.Text = []string{"Left out: PostgreSQL is not installed."}
		return section, nil
	}
	pool, err := s.pool(ctx, postgresPool, nil)
	if err != nil {
		return section, err
	}
	defer pool.Close()
	rows, known, err := preparePostgres(ctx, pool)
	if err != nil {
		return section, err
	}
	section.Text = []string{fmt.Sprintf(
		"The same pool of %d connections and the same concurrency in each arm, autovacuum on. INSERT writes a row of the size of a finished "+
			"record's (%d bytes), SELECT reads it by its primary key. *INSERT, then UPDATE* writes the key first and the rest later, which is "+
			"the minimum for a claim and a response. *Of a record's columns* does so in a table like the store's, with its indexes and "+
			"without its checks, and *in batches* with two writers and rows for half of the callers in each statement. *CPU* is the client's process, *CPU of the server* the sum of PostgreSQL's processes. "+
			"*Asynchronous claim* is pgstore.AsynchronousClaims. The server has WAL files to reuse, like one that has run for a day, and "+
			"makes a checkpoint before each table: a new server creates a file for every 16 MB, and all commits wait for that.", postgresPool, len(rows.payload)+bareOverhead)}
	files := walFilesPerRound * s.rounds
	for _, callers := range postgresCallers {
		if err := s.postgres.Age(ctx, files); err != nil {
			return section, err
		}
		files = 0 // the server has them
		plan := s.plan(0)
		plan.Server = s.postgres.ProcessorTime
		if callers >= 64 {
			plan.Slice *= 4 // several turns for each caller
		}
		if err := s.compare(ctx, &section, comparison{
			postgresComparison(callers), plan, postgresArms(ctx, pool, callers, rows, known),
			[]column{
				rateColumn, p50Column, p99Column, cpuColumn, serverColumn,
				speedColumn("x INSERT", arm(insertArm)), speedColumn("x SELECT", arm(selectArm)),
			},
		}); err != nil {
			return section, err
		}
	}
	if s.only != nil {
		return section, nil
	}
	if err := s.postgresTrips(ctx, &section); err != nil {
		return section, err
	}
	err = s.measureDisk(ctx, &section, rows)
	return section, err
}

// pool opens the connections.
func (s *suite) pool(ctx context.Context, connections int, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.postgres.DSN)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	config.ConnConfig.Tracer = tracer
	return pgxpool.NewWithConfig(ctx, config)
}

// preparePostgres makes the tables, and finished records with a bare row each.
func preparePostgres(ctx context.Context, pool *pgxpool.Pool) (rows bareRows, known []storage.Claim, err error) {
	if err := pgstore.Migrate(ctx, pool); err != nil {
		return rows, nil, err
	}
	if _, err := pool.Exec(ctx, bareTables); err != nil {
		return rows, nil, err
	}
	known = newClaims(knownRecords)
	work := storeWork{ctx: ctx, store: pgstore.New(pool), workers: postgresPool}
	if err := work.finish(known, newResult()); err != nil {
		return rows, nil, err
	}
	var size int
	if err := pool.QueryRow(ctx, `SELECT pg_column_size(r.*) FROM oncekey_records AS r WHERE record_key = $1`, known[0].Key).Scan(&size); err != nil {
		return rows, nil, err
	}
	rows = newBareRows(pool, size)
	return rows, known, harness.Parallel(postgresPool, len(known), func(_, i int) error { return rows.insert(ctx, known[i].Key) })
}

// bareRows writes and reads rows of the size of a record.
type bareRows struct {
	pool    *pgxpool.Pool
	payload []byte
}

// bareOverhead is the size of the key and of the row's own header.
const bareOverhead = 64 + 32

func newBareRows(pool *pgxpool.Pool, size int) bareRows {
	payload := make([]byte, max(size-bareOverhead, 1))
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

// completeRecords writes the columns of a response. The keys follow.
const completeRecords = `
UPDATE bare_record SET state = 'completed', revision = 2, lease_until = NULL, expires_at = ` + bareNow + ` + $2, status = 201,
	header = '[["set","Content-Type","application/json"]]', body = $3, settled_at = ` + bareNow + `
WHERE record_key = `

// bareNow is the time in the unit of the table.
const bareNow = `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`

// bareHour is a full hour, as the sweeper's index has them.
const bareHour = `(` + bareNow + ` / 3600000000 + 2) * 3600000000`

// insertRecord is insertTwice for the columns of a record, with the indexes of the store's
// table. It checks neither that the key is new nor that the claim is unchanged.
func (b bareRows) insertRecord(ctx context.Context, c storage.Claim) error {
	if _, err := b.pool.Exec(ctx, `
INSERT INTO bare_record (record_key, version, state, attempt, took_over, token, revision, fingerprint, lease_until, expires_at, sweep_after, claimed_at)
VALUES ($1, 1, 'in_progress', 1, 0, $2, 1, $3, `+bareNow+` + $4, `+bareNow+` + $5, `+bareHour+`, `+bareNow+`)`,
		c.Key, c.Token[:], []byte(c.Fingerprint), c.TTL.Microseconds(), c.Retain.Microseconds()); err != nil {
		return err
	}
	_, err := b.pool.Exec(ctx, completeRecords+`$1`, c.Key, c.Retain.Microseconds(), response)
	return err
}

// insertBatch is insertRecord for several keys.
func (b bareRows) insertBatch(ctx context.Context, batch []storage.Claim) error {
	keys, tokens := make([]string, len(batch)), make([][]byte, len(batch))
	for i, c := range batch {
		keys[i], tokens[i] = c.Key, c.Token[:]
	}
	if _, err := b.pool.Exec(ctx, `
INSERT INTO bare_record (record_key, version, state, attempt, took_over, token, revision, fingerprint, lease_until, expires_at, sweep_after, claimed_at)
SELECT k.key, 1, 'in_progress', 1, 0, k.token, 1, $3, `+bareNow+` + $4, `+bareNow+` + $5, `+bareHour+`, `+bareNow+` FROM unnest($1::text[], $2::bytea[]) AS k (key, token)`,
		keys, tokens, []byte(batch[0].Fingerprint), batch[0].TTL.Microseconds(), batch[0].Retain.Microseconds()); err != nil {
		return err
	}
	_, err := b.pool.Exec(ctx, completeRecords+`ANY ($1)`, keys, batch[0].Retain.Microseconds(), response)
	return err
}

// batchArm writes rows in batches, with so many writers. The latency is that of a batch.
func (b bareRows) batchArm(ctx context.Context, writers, size int) harness.Arm {
	var batches [][]storage.Claim
	arm := harness.Timed(batchedArm, writers, func(i int) error { return b.insertBatch(ctx, batches[i]) })
	run := arm.Run
	arm.Least *= size
	arm.Prepare = func(n int) error {
		batches = slices.Collect(slices.Chunk(newClaims(n), size))
		return nil
	}
	arm.Run = func(int) error { return run(len(batches)) }
	return arm
}

func (b bareRows) read(ctx context.Context, key string) error {
	var payload []byte
	return b.pool.QueryRow(ctx, `SELECT payload FROM bare WHERE key = $1`, key).Scan(&payload)
}

func postgresArms(ctx context.Context, pool *pgxpool.Pool, callers int, rows bareRows, known []storage.Claim) []harness.Arm {
	work := storeWork{ctx: ctx, store: pgstore.New(pool), workers: callers}
	asynchronous := storeWork{ctx: ctx, store: pgstore.New(pool, pgstore.AsynchronousClaims()), workers: callers}
	writes := func(name string, write func(context.Context, storage.Claim) error) harness.Arm {
		return storeWork{ctx: ctx, workers: callers}.claimsArm(name, nil, func(c storage.Claim) error { return write(ctx, c) })
	}
	ofKey := func(write func(context.Context, string) error) func(context.Context, storage.Claim) error {
		return func(ctx context.Context, c storage.Claim) error { return write(ctx, c.Key) }
	}
	inTurn := func(i int) storage.Claim { return known[i%len(known)] }
	writers := min(2, callers)
	return []harness.Arm{
		writes(insertArm, ofKey(rows.insert)),
		writes(twiceArm, ofKey(rows.insertTwice)),
		writes(recordArm, rows.insertRecord),
		rows.batchArm(ctx, writers, callers/writers),
		harness.Timed(selectArm, callers, func(i int) error { return rows.read(ctx, inTurn(i).Key) }),
		work.firstArm(firstArmName, nil),
		asynchronous.firstArm("first, asynchronous claim", nil),
		work.replayArm(replayArmName, inTurn),
	}
}

// postgresTrips counts the statements of each kind of request. It has no noise.
func (s *suite) postgresTrips(ctx context.Context, section *report.Section) error {
	tracer := &statementCounter{}
	pool, err := s.pool(ctx, 2, tracer)
	if err != nil {
		return err
	}
	defer pool.Close()
	counts, err := countTrips(ctx, pgstore.New(pool), &tracer.trips)
	if err != nil {
		return err
	}
	table := report.Table{Caption: "Round trips to PostgreSQL", Head: []string{"request", "round trips"}}
	for _, kind := range requestKinds {
		table.Rows = append(table.Rows, []string{kind, fmt.Sprint(counts[kind])})
	}
	section.Tables = append(section.Tables, table)
	return nil
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
