package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
)

// sqlDatabase is a database that is reached through database/sql.
type sqlDatabase struct {
	name, driver, dsn string
	dialect           sqlstore.Dialect
	bytes             string               // its type for bytes
	insert, find      string               // into and in the table of the least work
	server            func() time.Duration // nil: the database is a part of this process
}

var sqlCallers = []int{1, 16}

func sqlComparison(name string) string { return "database/sql, " + name + ", %d at once" }

// sqlDatabases returns the installed databases, and the names of those that are missing.
func (d *databases) sqlDatabases(folder string) (all []sqlDatabase, missing []string) {
	const insert, find = `INSERT INTO sql_least (id, payload) VALUES (?, ?)`, `SELECT payload FROM sql_least WHERE id = ?`
	if d.postgres == nil {
		missing = append(missing, "PostgreSQL")
	} else {
		all = append(all, sqlDatabase{
			"PostgreSQL", "pgx", d.postgres.DSN(), sqlstore.PostgreSQL(), "bytea",
			`INSERT INTO sql_least (id, payload) VALUES ($1, $2)`, `SELECT payload FROM sql_least WHERE id = $1`, d.postgres.ProcessorTime,
		})
	}
	for _, vendor := range []struct {
		name   string
		server *mysqltest.Server
	}{{"MySQL", d.mysql}, {"MariaDB", d.mariadb}} {
		if vendor.server == nil {
			missing = append(missing, vendor.name)
			continue
		}
		all = append(all, sqlDatabase{vendor.name, "mysql", benchDSN(vendor.server), sqlstore.MySQL(), "longblob", insert, find, vendor.server.ProcessorTime})
	}
	file := "file:" + filepath.Join(folder, "records.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)"
	return append(all, sqlDatabase{"SQLite", "sqlite", file, sqlstore.SQLite(), "BLOB", insert, find, nil}), missing
}

// guardedOnSQL compares a guard with the least work, on each dialect of sqlstore.
func guardedOnSQL(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{Title: "SQL databases", Text: []string{fmt.Sprintf(
		"`core/sqlstore` over database/sql, called as in *A guard on each store*, with a pool of %d connections that all arms share. *One write* is an "+
			"INSERT of the response, *one read* a SELECT by its primary key, both prepared. A first-time request commits twice. Every database waits for the disk at each "+
			"commit. *CPU* is the client's process, and with SQLite the database's too. Callers of SQLite's bare statements wait for each other in its busy "+
			"handler, and the store's in a queue.", postgresPool)}}
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
	// The table is named, because PostgreSQL has that of pgstore too.
	if err := sqlstore.Migrate(ctx, db, d.dialect, sqlstore.Table("sql_records")); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE sql_least (id varchar(64) PRIMARY KEY, payload `+d.bytes+` NOT NULL)`); err != nil {
		return err
	}
	insert, err := db.PrepareContext(ctx, d.insert) //nolint:sqlclosecheck // closed below
	if err != nil {
		return err
	}
	defer insert.Close()
	find, err := db.PrepareContext(ctx, d.find) //nolint:sqlclosecheck // closed below
	if err != nil {
		return err
	}
	defer find.Close()
	ours, err := onceKey(sqlstore.New(db, d.dialect, sqlstore.Table("sql_records")))
	if err != nil {
		return err
	}
	write := func(ctx context.Context, key string) error {
		_, err := insert.ExecContext(ctx, key, response)
		return err
	}
	known := newKey()
	if err := write(ctx, known); err != nil {
		return err
	}
	read := least(func(ctx context.Context, _ string) error {
		var payload []byte
		return find.QueryRowContext(ctx, known).Scan(&payload)
	})
	return s.compareServices(ctx, section, backend{
		name: sqlComparison(d.name), callers: sqlCallers, server: d.server,
		services: withLeast(both("oncekey", same(ours), same(ours)), same(least(write)), same(read)),
	}, called, speedColumn("x least", leastOf))
}

// sqlTargets are the targets of sqlstore.
func sqlTargets() (all []target) {
	const why = "a first-time request commits twice, and with many callers it is processor time, not the disk, that bounds all arms: the record has 21 columns " +
		"and an index for the sweeper. A replay reads 16 columns and the body beside them, where the SELECT reads one."
	for _, name := range []string{"PostgreSQL", "MySQL", "MariaDB", "SQLite"} {
		for _, callers := range sqlCallers {
			comparison := fmt.Sprintf(sqlComparison(name), callers)
			all = append(all,
				target{comparison + ", first : one write", false, 0.4, speed(comparison, oursFirst, oneWrite), why},
				target{comparison + ", replay : one read", false, 0.7, speed(comparison, oursReplay, oneRead), why})
		}
	}
	return all
}
