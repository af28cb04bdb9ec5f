package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	pgxstdlib "github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// overOwnServer runs a test over a server of its own of some set-ups, and a store on the
// server.
func overOwnServer(
	t *testing.T, some []setUp, settings []string, test func(t *testing.T, server ownServer, store *sqlstore.Store, db *sql.DB),
) {
	t.Helper()
	over(t, some, func(t *testing.T, s setUp) {
		server := s.start(t, settings...)
		s.dsn = func(testing.TB) string { return server.DSN() }
		store, db := s.open(t)
		test(t, server, store, db)
	})
}

// Case 19: a server that was killed comes back with all it has acknowledged. Case 95: that it is
// gone is no refusal of a large response.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	overOwnServer(t, ofMySQL, nil, func(t *testing.T, server ownServer, store *sqlstore.Store, _ *sql.DB) {
		testkit.SurvivesKill(t, store, server)
		lease := win(t, store, claim("large"))
		server.Kill()
		if err := store.Complete(t.Context(), lease, large(100_000)); err == nil || errors.Is(err, storage.ErrNotStorable) {
			t.Errorf("Complete at a server that is gone returned %v", err)
		}
	})
}

// A limit: a server that does not write its log at each commit loses acknowledged
// claims in a crash. Examine warns of the setting.
func TestServerThatLosesClaims(t *testing.T) {
	t.Parallel()
	overOwnServer(t, ofMySQL, []string{mysqltest.Forgetful}, func(t *testing.T, server ownServer, store *sqlstore.Store, _ *sql.DB) {
		wantFinding(t, examined(t, store), "innodb_flush_log_at_trx_commit", storage.Mend, "set it to 1")
		// The server writes its log every second, and may do so between the two.
		for n := range 5 {
			key := fmt.Sprint(n)
			win(t, store, claim(key))
			server.Kill()
			server.Restart()
			lost := false
			eventually(t, func() bool { // the pool's connections are dead
				record, err := store.Lookup(t.Context(), key)
				lost = record == nil
				return err == nil
			})
			if lost {
				return
			}
		}
		t.Error("five claims in a row have survived: want one lost, as this setting allows")
	})
}

// Case 12: a server that accepts calls and never responds. Case 11: the server carries
// out its pending statements when it continues.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	overOwnServer(t, servers, nil, func(t *testing.T, server ownServer, store *sqlstore.Store, db *sql.DB) {
		testkit.SurvivesPause(t, store, func() bool { return db.Stats().InUse == 0 }, server)
	})
}

// Another process writes to SQLite's file for longer than a caller can wait. Replays go
// on.
func TestBusyFile(t *testing.T) {
	t.Parallel()
	over(t, files, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		finish(t, store, "finished")
		lease := win(t, store, claim("key"))
		blocker, err := db.Conn(t.Context())
		must(t, err)
		_, err = blocker.ExecContext(t.Context(), `BEGIN IMMEDIATE`)
		must(t, err)
		start := time.Now()
		for operation, err := range tryAll(t, store, lease, 100*time.Millisecond) {
			if operation != "BeginTransaction" {
				fails(t, operation, err, context.DeadlineExceeded, "has locked the file")
			}
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("four calls of 100 ms took %s: want each to end with its context", took)
		}
		replays(t, store, claim("finished"), "finished")
		_, err = blocker.ExecContext(t.Context(), `ROLLBACK`)
		must(t, errors.Join(err, blocker.Close()))
		must(t, store.Complete(t.Context(), lease, result("late")))
	})
}

// A driver that returns when its context ends is spared the goroutine.
func TestPromptDrivers(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store, _ := s.open(t)
		testkit.Equal(t, store.IsPrompt(), s.driver != libpq.driver && s.driver != "sqlite3", "%s is prompt", s.driver)
	})
	var none *pgxstdlib.Driver
	for name, d := range map[string]driver.Driver{"no driver": nil, "a nil driver": none} {
		db := sql.OpenDB(&watched{of: d})
		if want := name == "a nil driver"; sqlstore.New(db, sqlstore.SQLite()).IsPrompt() != want {
			t.Errorf("a connector with %s is prompt: %t, want %t", name, !want, want)
		}
		must(t, db.Close())
	}
}

// Case 19: all connections are taken.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		db.SetMaxOpenConns(1)
		lease := win(t, store, claim("key"))
		taken, err := db.Conn(t.Context())
		must(t, err)
		for operation, err := range tryAll(t, store, lease, 50*time.Millisecond) {
			if store.Transacts() || operation != "BeginTransaction" {
				fails(t, operation, err, context.DeadlineExceeded, "all 1 connections of the pool are in use")
			}
		}
		for range 25 { // MySQL alone has a server that keeps a statement, which counts for a second
			err := limited(t, 5*time.Millisecond, func(ctx context.Context) error { return store.Extend(ctx, lease, time.Minute) })
			if err == nil || s.database != "mysql" && strings.Contains(err.Error(), "at the server") {
				t.Errorf("Extend returned %v, want an error of the pool alone", err)
			}
		}
		must(t, taken.Close())
		must(t, store.Complete(t.Context(), lease, result("answer")))
	})
}

// Case 19: a statement that the server has rolled back in favour of another is repeated,
// a bounded number of times. The triggers count in a way that no rollback undoes.
func TestRolledBackStatementsAreRepeated(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		must(t, store.Check(t.Context()))
		tries := func() int { return queryOne[int](t, db, `SELECT count(*) FROM tries`) }
		if s.database == "mysql" {
			execute(t, db, `CREATE TABLE tries (n int) ENGINE = MyISAM`)
			execute(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON oncekey_records FOR EACH ROW BEGIN
INSERT INTO tries VALUES (1); SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'; END`)
		} else {
			execute(t, db, `CREATE SEQUENCE tries`)
			execute(t, db, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
PERFORM nextval('tries'); RAISE 'refused' USING ERRCODE = '40P01'; END $$`)
			execute(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON oncekey_records FOR EACH ROW EXECUTE FUNCTION refuse()`)
			tries = func() int { return queryOne[int](t, db, `SELECT last_value FROM tries`) }
		}
		if _, _, err := store.Acquire(t.Context(), claim("key")); err == nil || errors.Is(err, storage.ErrLeaseLost) {
			t.Errorf("Acquire returned %v, want the deadlock", err)
		}
		testkit.Equal(t, tries(), sqlstore.MaximumTries, "tries of the claim")
		must(t, limited(t, time.Minute, func(ctx context.Context) error {
			statement := `DROP TRIGGER refuse`
			if s.database == "postgresql" {
				statement += ` ON oncekey_records`
			}
			_, err := db.ExecContext(ctx, statement)
			return err
		}))
		win(t, store, claim("key"))
	})
}

// The texts and methods of the drivers' errors are all that the store knows of them.
func TestErrorsOfDrivers(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return fmt.Errorf("wrapped: %w", err) }
	for _, test := range []struct {
		err  error
		want string
	}{
		{&pgconn.PgError{Code: "40001"}, "contended refused"},
		{wrapped(&pgconn.PgError{Code: "40P01"}), "contended refused"},
		{&pgconn.PgError{Code: "40003"}, ""}, // the end of the COMMIT is unknown
		{&pgconn.PgError{Code: "42501"}, "forbidden"},
		{&pgconn.PgError{Code: "26000"}, "mixed up"},
		{&pgconn.PgError{Code: "08P01"}, ""}, // of another message
		{&pgconn.PgError{Code: "23505"}, "refused"},
		{&mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001")), Message: "Deadlock"}, "contended refused"}, // Galera's COMMIT too
		{&mysql.MySQLError{Number: 3101, SQLState: [5]byte([]byte("40000")), Message: "Plugin instructed the server to rollback"}, "contended refused"},
		{wrapped(&mysql.MySQLError{Number: 1205, Message: "Lock wait timeout"}), "contended"},
		{&mysql.MySQLError{Number: 1142, Message: "INSERT command denied"}, "forbidden"},
		{&mysql.MySQLError{Number: 1143, Message: "UPDATE command denied for a column"}, "forbidden"},
		{&mysql.MySQLError{Number: 1062, Message: "Error 1213: in a key"}, ""},
		{errors.New("database is locked"), "contended"}, // mattn/go-sqlite3
		{errors.New("attempt to write a readonly database"), "forbidden"},
		{errors.New("connection refused"), ""},
		{wrapped(errors.New("sqlite3: database is locked")), "contended"}, // ncruces/go-sqlite3
		{errors.Join(errors.New("sqlite3: constraint failed: CHECK constraint failed: narrow"), context.Canceled), "for good"},
		{errors.New("sqlite3: disk I/O error"), ""},
		// bun's pgdriver and go-mysql-org's driver have no SQLState and no type that the store could ask.
		{wrapped(errors.New("ERROR: savepoint \"oncekey\" does not exist (SQLSTATE=3B001)")), "ended"},
		{errors.New("ERROR: deadlock detected (SQLSTATE=40P01)"), "contended refused"},
		{errors.New("ERROR: no \"(SQLSTATE=40P01)\" (SQLSTATE 22023)"), ""},
		{errors.New("ERROR 1305 (42000): SAVEPOINT oncekey does not exist"), "ended"},
	} {
		testkit.Equal(t, sqlstore.Judge(test.err), test.want, "%v", test.err)
	}
}

// A pool may lead to a replica. There no handler can run, but replays work.
func TestReplicaReplaysAndClaimsNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	primary := postgresql.connect(t, server.DSN())
	must(t, sqlstore.Migrate(t.Context(), primary, sqlstore.PostgreSQL()))
	finish(t, sqlstore.New(primary, sqlstore.PostgreSQL()), "finished")
	finish(t, sqlstore.New(primary, sqlstore.PostgreSQL()), "corrupt")
	execute(t, primary, `UPDATE oncekey_records SET status = 7 WHERE record_key = 'corrupt'`)
	store := sqlstore.New(postgresql.connect(t, server.Standby().DSN()), sqlstore.PostgreSQL())
	replays(t, store, claim("finished"), "finished")
	_, _, err := store.Acquire(t.Context(), claim("corrupt"))
	fails(t, "Acquire", err, storage.ErrCorruptRecord)
	if lease, record, err := store.Acquire(t.Context(), claim("new")); err == nil {
		t.Errorf("Acquire returned %+v and %+v, want an error", lease, record)
	}
}

// Case 45: a pooler runs a statement in another session than its preparation.
func TestMixedUpSessionsNameTheSetting(t *testing.T) {
	t.Parallel()
	const remedy = "default_query_exec_mode=exec for pgx, or binary_parameters=yes for lib/pq"
	for code, text := range map[string]string{
		"26000": "does not exist", "42P05": "already exists",
		"08P01": "bind message supplies 1 parameters", // the unnamed statement is another client's
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			store, db := libpq.open(t)
			must(t, store.Check(t.Context()))
			execute(t, db, fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
RAISE '%s' USING ERRCODE = '%s'; END $$`, text, code))
			execute(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON oncekey_records FOR EACH ROW EXECUTE FUNCTION refuse()`)
			_, _, err := store.Acquire(t.Context(), claim("key"))
			fails(t, "Acquire", err, nil, remedy)
			execute(t, db, `DELETE FROM oncekey_records_migrations`)
			execute(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON oncekey_records_migrations FOR EACH ROW EXECUTE FUNCTION refuse()`)
			fails(t, "Migrate", sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL()), nil, remedy)
		})
	}
}

func TestMissingTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store := sqlstore.New(s.connect(t, s.dsn(t)), s.dialect)
		for operation, err := range tryAll(t, store, storage.Lease{Claim: claim("key"), Attempt: 1}, 10*time.Second) {
			if operation != "BeginTransaction" {
				fails(t, operation, err, nil, "run sqlstore.Migrate first")
			}
		}
	})
}
