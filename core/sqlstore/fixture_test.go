package sqlstore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

var (
	claim, takeOver, result, finish  = testkit.Claim, testkit.TakeOver, testkit.Result, testkit.Finish
	win, find, must, limited, tryAll = testkit.Win, testkit.Find, testkit.Must, testkit.Limited, testkit.TryAll
	eventually, fails, replays       = testkit.Eventually, testkit.Fails, testkit.Replays
	wantFinding                      = testkit.WantFinding
	goThroughLife, race              = testkit.GoThroughLife, testkit.Race
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // tests break connections, and the driver logs each
	goleak.VerifyTestMain(postgrestest.Main(mysqltest.Main(m)))
}

// setUp is a database for the tests.
type setUp struct {
	name string
	// driver is the name for sql.Open, and database the one of the dialect's tables.
	driver, database string
	dialect          sqlstore.Dialect
	// dsn returns the address of a database. With one database the cases of a suite have
	// tables of their own.
	dsn func(t testing.TB) string
	// connections is the size of the pool, if it is limited. They are opened at once: one
	// that opens waits for a write of SQLite in real time.
	connections int
	// start starts a server of the test's own, with settings, where the database has one.
	start func(t testing.TB, settings ...string) ownServer
}

// ownServer is a server that a test may kill.
type ownServer interface {
	DSN() string
	Kill()
	Restart()
	Pause()
	Resume()
}

func startPostgreSQL(t testing.TB, settings ...string) ownServer {
	return postgrestest.Start(t, settings...)
}

func startMySQL(vendor *mysqltest.Vendor) func(t testing.TB, settings ...string) ownServer {
	return func(t testing.TB, settings ...string) ownServer { return vendor.Start(t, settings...) }
}

// quick does without the waits of a durable file, as the tests over the servers do.
const quick = "_pragma=synchronous(OFF)&_pragma=busy_timeout(5000)"

func sqliteFile(settings string) func(t testing.TB) string {
	return func(t testing.TB) string { return "file:" + filepath.Join(t.TempDir(), "records.db") + "?" + settings }
}

// The set-ups that a program may have.
var (
	postgresql = setUp{
		name: "PostgreSQL", driver: "pgx", database: "postgresql", dialect: sqlstore.PostgreSQL(),
		dsn: postgrestest.Shared, start: startPostgreSQL,
	}
	libpq = setUp{
		name: "PostgreSQL with lib-pq", driver: "postgres", database: "postgresql", dialect: sqlstore.PostgreSQL(),
		dsn: postgrestest.Shared, start: startPostgreSQL,
	}
	mysqlServer = setUp{
		name: "MySQL", driver: "mysql", database: "mysql", dialect: sqlstore.MySQL(),
		dsn: mysqltest.MySQL.Shared, start: startMySQL(mysqltest.MySQL),
	}
	mariadb = setUp{
		name: "MariaDB", driver: "mysql", database: "mysql", dialect: sqlstore.MySQL(),
		dsn: mysqltest.MariaDB.Shared, start: startMySQL(mysqltest.MariaDB),
	}
	sqliteWAL = setUp{
		name: "SQLite", driver: "sqlite", database: "sqlite", dialect: sqlstore.SQLite(),
		dsn: sqliteFile(quick + "&_pragma=journal_mode(WAL)"),
	}
	// SQLite's other ways: a rollback journal, with which a write waits for readers too, and
	// a database that ends with its only connection. PERSIST is DELETE, the default, without
	// the file system's time for a new journal in each write.
	sqliteJournal = setUp{
		name: "SQLite with a rollback journal", driver: "sqlite", database: "sqlite", dialect: sqlstore.SQLite(),
		dsn: sqliteFile(quick + "&_pragma=journal_mode(PERSIST)"), connections: 4,
	}
	sqliteMemory = setUp{
		name: "SQLite in memory", driver: "sqlite", database: "sqlite", dialect: sqlstore.SQLite(),
		dsn: func(testing.TB) string { return ":memory:" }, connections: 1,
	}

	ofMySQL   = []setUp{mysqlServer, mariadb}
	servers   = append([]setUp{postgresql, libpq}, ofMySQL...)
	files     = append([]setUp{sqliteWAL}, cgo...)
	inProcess = append([]setUp{sqliteJournal, sqliteMemory}, files...)
	all       = slices.Concat(servers, inProcess)
	// outlasting are those whose records outlive their connections.
	outlasting = slices.Concat(servers, files)
)

// over runs a test over some set-ups.
func over(t *testing.T, some []setUp, test func(t *testing.T, s setUp)) {
	t.Helper()
	for _, s := range some {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// openWith returns a store over a migrated database, to which its pool connects with further
// settings.
func (s setUp) openWith(t testing.TB, settings string) *sqlstore.Store {
	t.Helper()
	dsn := s.dsn(t)
	must(t, sqlstore.Migrate(t.Context(), s.connect(t, dsn), s.dialect))
	return sqlstore.New(s.connect(t, dsn+settings), s.dialect)
}

// connect returns a pool that is closed after the test.
func (s setUp) connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.driver, dsn)
	must(t, err)
	const connections = 20
	size := connections
	if s.connections > 0 {
		size = s.connections
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	t.Cleanup(func() { _ = db.Close() }) // its error is of connections that tests have broken
	opened := make([]*sql.Conn, s.connections)
	for i := range opened {
		opened[i], err = db.Conn(t.Context())
		must(t, err)
	}
	for _, connection := range opened {
		must(t, connection.Close())
	}
	return db
}

// open returns a store in a database of its own.
func (s setUp) open(t testing.TB) (*sqlstore.Store, *sql.DB) {
	t.Helper()
	db := s.connect(t, s.dsn(t))
	must(t, sqlstore.Migrate(t.Context(), db, s.dialect))
	return sqlstore.New(db, s.dialect), db
}

// opener returns a function that opens stores without records. The stores of a server
// share a pool, and have a table each. SQLite's have a file each. The tables may be changed.
func (s setUp) opener(t *testing.T, tables ...func(t testing.TB, db *sql.DB, table string)) func(t testing.TB) *sqlstore.Store {
	t.Helper()
	if s.database == "sqlite" {
		return func(t testing.TB) *sqlstore.Store {
			store, db := s.open(t)
			for _, change := range tables {
				change(t, db, sqlstore.DefaultTable)
			}
			return store
		}
	}
	db := s.connect(t, s.dsn(t))
	var cases atomic.Int32
	return func(t testing.TB) *sqlstore.Store {
		name := fmt.Sprintf("case_%d", cases.Add(1))
		table := sqlstore.Table(name)
		must(t, sqlstore.Migrate(t.Context(), db, s.dialect, table))
		for _, change := range tables {
			change(t, db, name)
		}
		return sqlstore.New(db, s.dialect, table)
	}
}

// execute runs a statement past the store, and returns how many rows it affected.
func execute(t testing.TB, db *sql.DB, statement string) int64 {
	t.Helper()
	done, err := db.ExecContext(t.Context(), statement)
	must(t, err)
	rows, err := done.RowsAffected()
	must(t, err)
	return rows
}

// queryOne returns the only value that a query finds.
func queryOne[T any](t testing.TB, db *sql.DB, query string, arguments ...any) T {
	t.Helper()
	var value T
	must(t, db.QueryRowContext(t.Context(), query, arguments...).Scan(&value))
	return value
}

// counts expects a query to find a number.
func counts(t testing.TB, db *sql.DB, want int, query string) {
	t.Helper()
	testkit.Equal(t, queryOne[int](t, db, query), want, "the result of %s", query)
}
