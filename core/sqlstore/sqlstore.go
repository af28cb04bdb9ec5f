// Package sqlstore keeps records in PostgreSQL, MySQL, MariaDB or SQLite, through
// database/sql.
//
//	db, err := sql.Open("mysql", "shop@tcp(localhost)/shop")
//	err = sqlstore.Migrate(ctx, db, sqlstore.MySQL()) // or run Migrations with a tool of your own
//	store := sqlstore.New(db, sqlstore.MySQL())
//	engine, err := core.New(store, core.ScopeBy(userID))
//	go store.RunSweeper(ctx, 10*time.Minute)
//
// The package imports no driver: the program chooses one. A first-time request is an
// INSERT, and an UPDATE for its response. A replay is one SELECT by primary key, after
// an INSERT that adds no row if this process has not seen the key lately. SQLite has a
// SELECT before each INSERT instead.
//
// # Time
//
// The server's clock decides when a record expires: PostgreSQL's clock_timestamp, and
// MySQL's UTC_TIMESTAMP, which no session's time zone affects. SQLite has no server, so
// the clock is that of the machine on which all processes run.
//
// # Isolation
//
// Every write is one statement for one row, found by its primary key, that names the
// state of the row that it expects. So the store is correct under every isolation level
// of every database, and needs no transaction of its own. The levels differ in the
// errors of contention only:
//
//   - MySQL's REPEATABLE READ, its default, locks gaps between rows for statements that
//     find no row or a range of rows. An UPDATE by primary key that finds no row locks
//     a gap until its statement ends. Two such statements and two INSERTs may deadlock.
//     READ COMMITTED has no such gaps, and needs binlog_format=ROW, the default of
//     MySQL, or MIXED, the default of MariaDB.
//   - SERIALIZABLE in MySQL makes a plain SELECT outside of a transaction no different.
//     In PostgreSQL, REPEATABLE READ and SERIALIZABLE fail a statement whose row has
//     changed meanwhile.
//
// The store repeats a statement that the database has rolled back for contention: a
// deadlock, a lock wait, a serialization failure, SQLITE_BUSY. It does so five times at
// most, within the call's context.
//
// # Deadlines
//
// A call returns when its context ends. The driver then closes the connection, or
// interrupts the statement. The write may have happened: a claim whose call ran into
// its deadline may hold the key until its lease ends. No handler runs then. Give the
// pool enough idle connections (SetMaxIdleConns), because database/sql keeps two. Set a
// limit (SetMaxOpenConns) before the first call: MySQL's server keeps a statement that was
// left behind while its table is locked, for up to a second, and the store counts it.
//
// Not every driver returns when a context ends: lib/pq waits for a server that does not
// answer, and mattn/go-sqlite3 for its busy_timeout. So the store calls a driver on a
// goroutine, unless it is pgx, go-sql-driver/mysql or modernc.org/sqlite. A call whose
// context has ended leaves the goroutine to wait for the driver. A limit of the pool
// (SetMaxOpenConns) limits these goroutines. They cost a replay a tenth of its speed, and
// in SQLite a quarter. A driver that wraps another, for example for tracing, has them too.
//
// # Durability
//
// MySQL and MariaDB need innodb_flush_log_at_trx_commit=1, PostgreSQL needs
// synchronous_commit=on, SQLite needs synchronous=FULL. With other settings a crash of
// the machine may lose the last claims and responses, and a retry then runs the handler
// a second time. [Store.Examine] reports such settings.
//
// # Handlers in a transaction
//
// If the handler writes to the same database, the store can commit the handler's writes
// and its response together, see [Tx]. SQLite has no such transactions, because one
// handler would keep all other requests waiting.
//
// Grants, schema tools and settings: docs/sql.md.
package sqlstore

import (
	"database/sql"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// DefaultTable is the name of the table, unless [Table] sets another.
const DefaultTable = "oncekey_records"

// Store is a [storage.Store] over database/sql, and a [storage.Transactor], a
// [storage.Inspector], a [storage.Checker], a [storage.Limiter] and a [storage.Examiner]
// too. It is safe for concurrent use. Make one with [New].
//
// The pages of a List are in the order of their keys. List skips an unreadable record, and
// logs a warning with the record's key. Forget also deletes the attempt number.
type Store struct {
	db         *sql.DB
	dialect    *dialect
	table      string
	logger     *slog.Logger
	swept      *atomic.Int64 // or nil
	statements [sqlrows.Names]statement
	records    *sqlrows.Records
	// proof: the store has every right and its table.
	proof sqlrows.Proof
	// preparing has room for the one caller that prepares a statement.
	preparing chan struct{}
	// prompt: a call of the driver returns when its context ends.
	prompt bool
	// places bounds the statements on connections of the pool. The first call makes it.
	places func() places
	// writer has room for the one write at a time of a database with a single writer.
	writer chan struct{}
	inspector
	*scopes
}

// The methods of [storage.Inspector] and of [storage.Limiter].
type (
	inspector = storage.Inspector
	scopes    = sqlrows.Scopes
)

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.Transactor = (*Store)(nil)
	_ storage.Inspector  = (*Store)(nil)
	_ storage.Checker    = (*Store)(nil)
	_ storage.Limiter    = (*Store)(nil)
	_ storage.Examiner   = (*Store)(nil)
)

// Option is a setting of [New], [Migrate] and [Migrations].
type Option func(*Store)

var tablePattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]{0,40}$`)

// Table sets the name of the table, so that several applications can share a database.
// The default is [DefaultTable]. A schema may precede the name, with a dot, except in
// SQLite. Table panics when a name has other characters than letters, digits and
// underscores, or is longer than 41 characters. New, Migrate and Migrations panic when a
// schema has more than 63 characters in PostgreSQL, or more than 64 in MySQL, and for each
// schema in SQLite.
func Table(name string) Option {
	if !tablePattern.MatchString(name) {
		panic(fmt.Sprintf("sqlstore: Table(%q): want at most 41 letters, digits and underscores, possibly after a schema and a dot", name))
	}
	return func(s *Store) { s.table = name }
}

// Logger sets the logger of [Store.RunSweeper] and of skipped records. The default,
// also for nil, is slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.logger = logger } }

// CountSwept adds the number of records that sweeps of this store remove to removed, for a
// metric such as that of idemotel.WithSwept. The default, also for nil, counts none.
func CountSwept(removed *atomic.Int64) Option { return func(s *Store) { s.swept = removed } }

// New returns a store that uses the pool. It neither dials nor migrates: the first call
// reports an unreachable server or a missing table. The caller keeps the pool, and
// closes it after the last request and after the sweeper has returned.
func New(db *sql.DB, dialect Dialect, options ...Option) *Store {
	if db == nil {
		panic("sqlstore: New(nil): want a pool")
	}
	s := configured(db, dialect, options)
	s.prompt = isPrompt(db.Driver())
	return s
}

func configured(db *sql.DB, dialect Dialect, options []Option) *Store {
	if dialect.dialect == nil {
		panic("sqlstore: the dialect is missing: want PostgreSQL(), MySQL() or SQLite()")
	}
	s := &Store{db: db, dialect: dialect.dialect, table: DefaultTable, preparing: make(chan struct{}, 1)}
	records.Configure("sqlstore", s, options)
	if schema, _ := sqlrows.NameOf(s.table); len(schema) > s.dialect.longestName {
		panic(fmt.Sprintf("sqlstore: Table(%q): the schema has %d bytes: %s takes at most %d", s.table, len(schema), s.dialect.name, s.dialect.longestName))
	}
	s.proof = sqlrows.Proof{Client: sqlDriver, Prove: s.proveAll}
	s.places = sync.OnceValue(func() places {
		if s.dialect.Limited == nil {
			return nil // no statement outlasts its call for long
		}
		return newPlaces(db.Stats().MaxOpenConnections)
	})
	s.compileStatements()
	s.records = s.newRecords()
	s.inspector, s.scopes = s.records, sqlrows.NewScopes(s.records)
	if s.dialect.singleWriter {
		s.writer = make(chan struct{}, 1)
	} else {
		s.records.Seen = sqlrows.NewSeen()
	}
	return s
}
