package sqlstore

import "github.com/oncekey/oncekey/core/internal/sqlrows"

// Dialect is a kind of database. [PostgreSQL], [MySQL] and [SQLite] return one.
type Dialect struct {
	*dialect
}

// dialect is the part of the store that differs between databases.
type dialect struct {
	sqlrows.Form
	sqlrows.Tables
	name string
	// prepares: the store prepares its statements once for each connection, because the
	// driver does not.
	prepares bool
	// singleWriter: a transaction that writes keeps all other writes waiting.
	singleWriter bool
	// newest begins each statement in a handler's transaction. See mysql.go.
	newest string
	// endConnection ends the connection that its statements run on.
	endConnection []string
	// keepsLocks: the end of a transaction leaves the locks of tables.
	keepsLocks bool
	// readCommitted: a transaction needs this isolation level, whatever the default is.
	readCommitted bool
	// examine returns the settings that matter to the records.
	examine []sqlrows.Check
	// largestPacket is the query for the limit of a statement with its arguments in bytes.
	// Empty: there is none worth asking for.
	largestPacket string
	// grant is the statement that gives the store its rights.
	grant string
	// longestName bounds the name of a schema in characters, which are bytes. Zero: there
	// are no schemas.
	longestName int
}

// PostgreSQL is PostgreSQL 13 or newer, through the stdlib package of
// github.com/jackc/pgx/v5 or through github.com/lib/pq. The driver caches prepared
// statements, or does not, as its own settings say. Programs that use pgx without
// database/sql have package pgstore, which needs fewer round trips.
func PostgreSQL() Dialect {
	return Dialect{&dialect{
		name:          "PostgreSQL",
		Tables:        sqlrows.PostgreSQLTables(),
		Form:          sqlrows.PostgreSQL(),
		readCommitted: true,
		endConnection: []string{`ROLLBACK`, `SELECT pg_terminate_backend(pg_backend_pid())`},
		examine:       sqlrows.PostgreSQLChecks(),
		longestName:   63,
		grant:         "GRANT SELECT, INSERT, UPDATE, DELETE ON {table}",
	}}
}

// MySQL is MySQL 8.0 or newer, or MariaDB 10.6 or newer, through
// github.com/go-sql-driver/mysql.
func MySQL() Dialect {
	return Dialect{&dialect{
		name:   "MySQL",
		Tables: sqlrows.MySQLTables(),
		Form: sqlrows.Form{
			// UTC_TIMESTAMP, because NOW is ambiguous in the hour in which summer time ends.
			Now:     `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`,
			Div:     "DIV",
			Limited: mysqlLimited,
		},
		prepares: true,
		newest:   mariadbNewest,
		examine:  sqlrows.MySQLChecks,

		endConnection: []string{`KILL CONNECTION_ID()`},
		keepsLocks:    true,
		longestName:   64,

		largestPacket: `SELECT @@max_allowed_packet`,
		grant:         "GRANT SELECT, INSERT, UPDATE, DELETE ON {table}",
	}}
}

// SQLite is SQLite 3.44 or newer, through modernc.org/sqlite or
// github.com/mattn/go-sqlite3. Each connection of the pool needs these settings, which
// belong in the data source name:
//
//	journal_mode=WAL   replays go on while a record is written
//	synchronous=FULL   a crash of the machine loses no acknowledged record
//	busy_timeout=5000  a write waits for that of another connection
//
// With modernc.org/sqlite:
//
//	file:payments.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)
//
// With github.com/mattn/go-sqlite3:
//
//	file:payments.db?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000
//
// [Store.Examine] reports other settings. The process's clock is the database's. All
// processes that use the file must run on one machine.
func SQLite() Dialect {
	return Dialect{&dialect{
		name:         "SQLite",
		Tables:       sqlrows.SQLiteTables(),
		Form:         sqlrows.Form{AsText: true, Hex: "hex(%s)", Div: "/", OnConflict: sqlrows.OnConflict},
		prepares:     true,
		singleWriter: true,
		examine:      sqlrows.SQLiteChecks,
		grant:        "give the process write access to the file and to its folder",
	}}
}
