package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
	"github.com/oncekey/oncekey/examples/bench/internal/servers"
)

// sqlDatabase is a database that is reached through database/sql.
type sqlDatabase struct {
	name, driver, dsn string
	dialect           sqlstore.Dialect
	blob              string               // its type for bytes
	twice             string               // how it makes a table that is written twice for each row
	server            func() time.Duration // nil: the database is a part of this process
}

var sqlCallers = []int{1, 16}

const twiceArm = "INSERT, then UPDATE"

func sqlComparison(name string, callers int) string {
	return fmt.Sprintf("database/sql, %s, %d at once", name, callers)
}

// microsecondsAbove is an arm's time above another arm's.
func microsecondsAbove(comparison, arm, below string) measure {
	return func(r results) (harness.Estimate, bool) {
		c := r.find(comparison, arm, below)
		if c == nil {
			return harness.Estimate{}, false
		}
		nanoseconds := c.Difference(harness.Time, arm, below)
		const microsecond = 1e3
		return harness.Estimate{Median: nanoseconds.Median / microsecond, Low: nanoseconds.Low / microsecond, High: nanoseconds.High / microsecond}, true
	}
}

// sqlTargets are the targets of sqlstore. A finished record has more columns than the bare
// row, and its INSERT and UPDATE name what they expect.
func sqlTargets() (all []target) {
	for _, name := range []string{"PostgreSQL", "MySQL", "MariaDB", "SQLite"} {
		for _, callers := range sqlCallers {
			comparison := sqlComparison(name, callers)
			all = append(all,
				target{comparison + ", first : INSERT", false, 0.4, speed(comparison, firstArmName, insertArm), sqlCommits},
				target{comparison + ", replay : SELECT", false, 0.7, speed(comparison, replayArmName, selectArm), sqlColumns})
		}
	}
	alone := sqlComparison("SQLite", 1)
	return append(all, target{alone + ", replay above SELECT, µs", true, 60, microsecondsAbove(alone, replayArmName, selectArm), ""})
}

// Reasons of sqlTargets.
const (
	sqlCommits = "a first-time request commits twice. *" + twiceArm + "* is the minimum, and with many callers it is processor time, not the " +
		"disk, that bounds all arms: the record has 21 columns and an index for the sweeper."
	sqlColumns = "a replay reads 16 columns, as one text except on MySQL and MariaDB, and the body beside them, where SELECT reads one column. " +
		"*SELECT of the record's columns* does so by hand: on SQLite it reached 0.68 to 0.80."
)

// sqlDatabases returns the installed databases, and the names of those that are missing.
func (s *suite) sqlDatabases(folder string) (all []sqlDatabase, missing []string) {
	if s.postgres == nil {
		missing = append(missing, "PostgreSQL")
	} else {
		all = append(all, sqlDatabase{
			name: "PostgreSQL", driver: "pgx", dsn: s.postgres.DSN, dialect: sqlstore.PostgreSQL(), blob: "bytea", twice: " WITH (fillfactor = 50)",
			server: s.postgres.ProcessorTime,
		})
	}
	for _, vendor := range []struct {
		name   string
		server *servers.MySQL
	}{{"MySQL", s.mysql}, {"MariaDB", s.mariadb}} {
		if vendor.server == nil {
			missing = append(missing, vendor.name)
			continue
		}
		all = append(all, sqlDatabase{
			name: vendor.name, driver: "mysql", dsn: vendor.server.DSN, dialect: sqlstore.MySQL(), blob: "longblob", server: vendor.server.ProcessorTime,
		})
	}
	return append(all, sqlDatabase{
		name: "SQLite", driver: "sqlite", dialect: sqlstore.SQLite(), blob: "BLOB",
		dsn: "file:" + filepath.Join(folder, "records.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)",
	}), missing
}

// sqlFloor compares the steps of sqlstore with the minimal statements, for each dialect.
func sqlFloor(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{Title: "SQL databases: the store against bare statements", Text: []string{fmt.Sprintf(
		"`core/sqlstore` over database/sql, with a pool of %d connections that all arms share. Every statement is prepared once for each "+
			"connection. INSERT writes a row of the size of a finished record's, SELECT reads it by its primary key. *%s* is the minimum for "+
			"a claim and a response: two commits. Every database waits for the disk at each commit. *CPU* is the client's process, and with "+
			"SQLite the database's too. Callers of SQLite's bare statements wait for each other in its busy handler, and the store's in a queue.",
		postgresPool, twiceArm)}}
	folder, err := os.MkdirTemp("", "oncekey-bench-sqlite-")
	if err != nil {
		return section, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // a folder for temporary files
	databases, missing := s.sqlDatabases(folder)
	for _, name := range missing {
		section.Text = append(section.Text, "Left out: "+name+" is not installed.")
	}
	for _, d := range databases {
		if err := s.compareSQL(ctx, &section, d); err != nil {
			return section, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return section, nil
}

func (s *suite) compareSQL(ctx context.Context, section *report.Section, d sqlDatabase) error {
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(postgresPool)
	db.SetMaxIdleConns(postgresPool)
	rows, known, err := d.prepare(ctx, db)
	if err != nil {
		return err
	}
	defer rows.close()
	for _, callers := range sqlCallers {
		plan := s.plan(0)
		plan.Server = d.server
		columns := []column{rateColumn, p50Column, p99Column, cpuColumn}
		if d.server != nil {
			columns = append(columns, serverColumn)
		}
		work := storeWork{ctx: ctx, store: sqlstore.New(db, d.dialect, besidePgstore), workers: callers}
		if err := s.compare(ctx, section, comparison{
			sqlComparison(d.name, callers), plan, sqlArms(work, rows, known),
			append(columns, speedColumn("x INSERT", arm(insertArm)), speedColumn("x SELECT", arm(selectArm))),
		}); err != nil {
			return err
		}
	}
	return nil
}

func sqlArms(work storeWork, rows *sqlRows, known []storage.Claim) []harness.Arm {
	inTurn := func(i int) storage.Claim { return known[i%len(known)] }
	writes := func(name string, write func(context.Context, string) error) harness.Arm {
		return work.claimsArm(name, nil, func(c storage.Claim) error { return write(work.ctx, c.Key) })
	}
	return []harness.Arm{
		writes(insertArm, rows.insert),
		writes(twiceArm, rows.insertTwice),
		harness.Timed(selectArm, work.workers, func(i int) error { return rows.read(work.ctx, inTurn(i).Key) }),
		harness.Timed("SELECT of the record's columns", work.workers, func(i int) error { return rows.readRecord(work.ctx, inTurn(i).Key) }),
		work.firstArm(firstArmName, nil),
		work.replayArm(replayArmName, inTurn),
	}
}

// recordColumns are those that a replay needs.
var recordColumns = []string{
	"version", "state", "attempt", "token", "fingerprint", "digest", "origin", "lease_until", "retain_until", "expires_at", "claimed_at",
	"settled_at", "status", "header", "body", "sketch",
}

// sizeOfRecord is the number of bytes of a finished record without its key, its 10 numbers
// included.
const sizeOfRecord = `SELECT length(state) + length(token) + length(fingerprint) + length(header) + length(body) + 8 * 10
FROM oncekey_records WHERE record_key = `

// besidePgstore names the table, because the database has that of pgstore too, and the
// two stores share no keys.
var besidePgstore = sqlstore.Table(sqlstore.DefaultTable)

// prepare makes the tables and the statements, and finished records with a bare row each.
func (d sqlDatabase) prepare(ctx context.Context, db *sql.DB) (*sqlRows, []storage.Claim, error) {
	if err := sqlstore.Migrate(ctx, db, d.dialect, besidePgstore); err != nil {
		return nil, nil, err
	}
	for _, table := range []string{
		`CREATE TABLE sql_bare (id varchar(64) PRIMARY KEY, payload ` + d.blob + ` NOT NULL)`,
		`CREATE TABLE sql_twice (id varchar(64) PRIMARY KEY, payload ` + d.blob + ` NOT NULL)` + d.twice,
	} {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return nil, nil, err
		}
	}
	known := newClaims(knownRecords)
	work := storeWork{ctx: ctx, store: sqlstore.New(db, d.dialect, besidePgstore), workers: postgresPool / 2}
	if err := work.finish(known, newResult()); err != nil {
		return nil, nil, err
	}
	var size int
	if err := db.QueryRowContext(ctx, sizeOfRecord+"'"+known[0].Key+"'").Scan(&size); err != nil {
		return nil, nil, err
	}
	rows := &sqlRows{payload: make([]byte, size)}
	rand.Read(rows.payload) // rand.Read never fails
	for text, target := range map[string]**sql.Stmt{
		`INSERT INTO sql_bare (id, payload) VALUES (?, ?)`:                                           &rows.one,
		`INSERT INTO sql_twice (id, payload) VALUES (?, ?)`:                                          &rows.first,
		`UPDATE sql_twice SET payload = ? WHERE id = ?`:                                              &rows.second,
		`SELECT payload FROM sql_bare WHERE id = ?`:                                                  &rows.find,
		`SELECT ` + strings.Join(recordColumns, ", ") + ` FROM oncekey_records WHERE record_key = ?`: &rows.record,
	} {
		if d.driver == "pgx" {
			text = strings.Replace(strings.Replace(text, "?", "$1", 1), "?", "$2", 1)
		}
		var err error
		if *target, err = db.PrepareContext(ctx, text); err != nil { //nolint:sqlclosecheck // rows.close closes it
			rows.close()
			return nil, nil, err
		}
	}
	err := harness.Parallel(work.workers, len(known), func(_, i int) error { return rows.insert(ctx, known[i].Key) })
	if err != nil {
		rows.close()
	}
	return rows, known, err
}

// sqlRows writes and reads rows of the size of a record, by prepared statements.
type sqlRows struct {
	payload                          []byte
	one, first, second, find, record *sql.Stmt
}

func (r *sqlRows) close() {
	for _, statement := range []*sql.Stmt{r.one, r.first, r.second, r.find, r.record} {
		if statement != nil {
			_ = statement.Close() // the database ends with the program
		}
	}
}

func (r *sqlRows) insert(ctx context.Context, key string) error {
	_, err := r.one.ExecContext(ctx, key, r.payload)
	return err
}

// insertTwice is the minimum for a record that exists before its response.
func (r *sqlRows) insertTwice(ctx context.Context, key string) error {
	if _, err := r.first.ExecContext(ctx, key, []byte{}); err != nil {
		return err
	}
	_, err := r.second.ExecContext(ctx, r.payload, key)
	return err
}

func (r *sqlRows) read(ctx context.Context, key string) error {
	var payload []byte
	return r.find.QueryRowContext(ctx, key).Scan(&payload)
}

// readRecord is a replay by hand, in which each column is read as it is.
func (r *sqlRows) readRecord(ctx context.Context, key string) error {
	values := make([]any, len(recordColumns))
	for i := range values {
		values[i] = new(any)
	}
	return r.record.QueryRowContext(ctx, key).Scan(values...)
}
