package sqlstore

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is a kind of database. [PostgreSQL], [MySQL] and [SQLite] return one.
type Dialect struct {
	*dialect
}

// dialect is the part of the store that differs between databases.
type dialect struct {
	name string
	// migrations is the folder with the tables.
	migrations string
	// now is the expression for the time in microseconds since 1970, in UTC. Empty: the
	// process passes its own time.
	now string
	// asText: most columns of a row are read as one text. Each column costs a replay up to
	// half a microsecond in every driver, so that columns would cost a tenth on SQLite. A
	// server of MariaDB takes longer to build the text: columns save a tenth of a replay.
	asText bool
	// hex is the expression for the bytes of a column, %s, in hexadecimal digits, for asText.
	hex string
	// numbered: a parameter is $1 instead of a question mark.
	numbered bool
	// div is the operator of the division of integers.
	div string
	// prepares: the store prepares its statements once for each connection, because the
	// driver does not.
	prepares bool
	// singleWriter: a transaction that writes keeps all other writes waiting.
	singleWriter bool
	// onConflict ends an INSERT that is to add no row where the key has one. Without
	// onConflict the INSERT fails, see isDuplicate.
	onConflict string
	// lock begins a migration, and unlock ends one. undo ends a failed one.
	lock, unlock, undo []string
	// addVersion adds a version to the table of migrations, unless it is there.
	addVersion string
	// before begins each statement, and newest each one in a handler's transaction. hint
	// follows the first word. See mysql.go.
	before, newest, hint string
	// endConnection ends the connection that its statements run on.
	endConnection []string
	// keepsLocks: the end of a transaction leaves the locks of tables.
	keepsLocks bool
	// readCommitted: a transaction needs this isolation level, whatever the default is.
	readCommitted bool
	// examine returns the settings that matter to the records.
	examine []check
	// largestPacket is the query for the limit of a statement with its arguments in bytes.
	// Empty: there is none worth asking for.
	largestPacket string
	// other tells whether package pgstore keeps records in this database, where it can.
	other string
	// grant is the statement that gives the store its rights.
	grant string
	// types are those of the table's columns, and describe is the query for them.
	types    map[kind][]string
	describe string
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
		migrations:    "postgresql",
		now:           `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`, // extract computes with slow decimals
		asText:        true,
		hex:           "encode(%s, 'hex')",
		numbered:      true,
		div:           "/",
		onConflict:    ` ON CONFLICT (record_key) DO NOTHING`,
		lock:          []string{`BEGIN`, `SELECT pg_advisory_xact_lock(hashtextextended('oncekey migrations of {table}', 0))`},
		unlock:        []string{`COMMIT`},
		undo:          []string{`ROLLBACK`},
		addVersion:    `INSERT INTO {table}_migrations (version) VALUES ({version}) ON CONFLICT DO NOTHING`,
		readCommitted: true,
		endConnection: []string{`ROLLBACK`, `SELECT pg_terminate_backend(pg_backend_pid())`},
		examine:       postgresqlChecks,
		types:         postgresqlTypes,
		describe:      postgresqlTable,
		longestName:   63,
		other:         postgresqlOther,
		grant:         "GRANT SELECT, INSERT, UPDATE, DELETE ON {table}",
	}}
}

// mysqlLock is the name of a lock, which may have 64 characters. A schema and a table have more.
const mysqlLock = `sha2('oncekey migrations of {table}', 224)`

// MySQL is MySQL 8.0 or newer, or MariaDB 10.6 or newer, through
// github.com/go-sql-driver/mysql.
func MySQL() Dialect {
	return Dialect{&dialect{
		name:       "MySQL",
		migrations: "mysql",
		// UTC_TIMESTAMP, because NOW is ambiguous in the hour in which summer time ends.
		now:        `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`,
		div:        "DIV",
		prepares:   true,
		lock:       []string{`DO GET_LOCK(` + mysqlLock + `, 60)`},
		unlock:     []string{`DO RELEASE_LOCK(` + mysqlLock + `)`},
		undo:       []string{`DO RELEASE_LOCK(` + mysqlLock + `)`},
		addVersion: `INSERT IGNORE INTO {table}_migrations (version) VALUES ({version})`,
		before:     mariadbBefore,
		newest:     mariadbNewest,
		hint:       mysqlHint,
		examine:    mysqlChecks,
		types:      mysqlTypes,
		describe:   mysqlTable,

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
		migrations:   "sqlite",
		asText:       true,
		hex:          "hex(%s)",
		div:          "/",
		prepares:     true,
		singleWriter: true,
		onConflict:   ` ON CONFLICT (record_key) DO NOTHING`,
		lock:         []string{`BEGIN IMMEDIATE`},
		unlock:       []string{`COMMIT`},
		undo:         []string{`ROLLBACK`},
		addVersion:   `INSERT INTO {table}_migrations (version) VALUES ({version}) ON CONFLICT DO NOTHING`,
		examine:      sqliteChecks,
		types:        sqliteTypes,
		describe:     sqliteTable,
		grant:        "give the process write access to the file and to its folder",
	}}
}

// compile turns a statement with named parameters (":key") into one of the dialect. It
// returns the parameters in the order of their places.
func (d *dialect) compile(text, table string) (string, []parameter) {
	var out strings.Builder
	var order []parameter
	numbers := map[parameter]int{}
	head, whole := columnsHead, columnsWhole
	if d.asText {
		head, whole = textHead, textWhole
	}
	rest := strings.NewReplacer("{head}", head, "{whole}", whole).Replace(d.limited(text))
	rest = strings.NewReplacer("{table}", table, "{div}", d.div).Replace(rest)
	for _, column := range []string{"token", "fingerprint", "digest"} {
		rest = strings.ReplaceAll(rest, "{hex "+column+"}", fmt.Sprintf(d.hex, column))
	}
	for {
		before, after, found := strings.Cut(rest, ":")
		out.WriteString(before)
		if !found {
			return out.String(), order
		}
		name := after[:len(after)-len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz_"))]
		rest = after[len(name):]
		p, known := parameters[name]
		switch {
		case !known:
			panic("sqlstore: no parameter is named " + strconv.Quote(name) + " in " + text)
		case p == pNow && d.now != "":
			out.WriteString(d.now)
		case !d.numbered:
			out.WriteByte('?')
			order = append(order, p)
		default:
			if numbers[p] == 0 {
				order = append(order, p)
				numbers[p] = len(order)
			}
			out.WriteString("$" + strconv.Itoa(numbers[p]))
		}
	}
}
