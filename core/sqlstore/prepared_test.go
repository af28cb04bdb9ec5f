package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// watched is a driver that reports what it prepares and queries.
type watched struct {
	of      driver.Driver
	dsn     string
	prepare func(c driver.Conn, text string)
	query   func(text string) error
	exec    func(text string)
}

func (w *watched) Connect(context.Context) (driver.Conn, error) {
	connection, err := w.of.Open(w.dsn)
	return watchedConn{connection, w}, err
}

func (w *watched) Driver() driver.Driver { return w.of }

type watchedConn struct {
	driver.Conn
	driver *watched
}

func (c watchedConn) Prepare(text string) (driver.Stmt, error) {
	c.driver.prepare(c.Conn, text)
	prepared, err := c.Conn.Prepare(text)
	return watchedStmt{prepared, text, c.driver}, err
}

type watchedStmt struct {
	driver.Stmt
	text   string
	driver *watched
}

func (s watchedStmt) QueryContext(ctx context.Context, values []driver.NamedValue) (driver.Rows, error) {
	if err := s.driver.query(s.text); err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, values)
}

func (s watchedStmt) ExecContext(ctx context.Context, values []driver.NamedValue) (driver.Result, error) {
	s.driver.exec(s.text)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, values)
}

// openWatched returns a store over a watched driver of SQLite, that has checked its rights.
func openWatched(t *testing.T, w *watched) *sqlstore.Store {
	t.Helper()
	w.dsn, w.prepare, w.query = sqliteWAL.dsn(t), func(driver.Conn, string) {}, func(string) error { return nil }
	w.exec = func(string) {}
	plain := sqliteWAL.connect(t, w.dsn)
	must(t, sqlstore.Migrate(t.Context(), plain, sqlstore.SQLite()))
	w.of = plain.Driver()
	db := sql.OpenDB(w)
	t.Cleanup(func() { must(t, db.Close()) })
	db.SetMaxIdleConns(16)
	store := sqlstore.New(db, sqlstore.SQLite())
	must(t, store.Check(t.Context()))
	return store
}

// Callers that come at once prepare each statement once for each connection.
func TestStatementsArePreparedOnce(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	times := map[string]int{}
	var w watched
	store := openWatched(t, &w)
	w.prepare = func(c driver.Conn, text string) {
		mutex.Lock()
		times[fmt.Sprintf("%p: %s", c, text)]++
		mutex.Unlock()
		<-time.After(time.Millisecond) // for the others to come too
	}
	race(t, store, 16, claim, 1)
	for statement, n := range times {
		if n != 1 {
			t.Errorf("prepared %d times on one connection, want once: %s", n, statement)
		}
	}
}

// A take-over has seen an abandoned claim, whose holder then releases it, and stores a
// response under the same token: the take-over must not replace the response.
func TestTakeOverOfARestoredRow(t *testing.T) {
	t.Parallel()
	var w watched
	store := openWatched(t, &w)
	short := claim("key")
	short.LockTTL = time.Microsecond
	lease := win(t, store, short)
	<-time.After(time.Millisecond) // the lease has ended
	other := sqlstore.New(sqliteWAL.connect(t, w.dsn), sqlstore.SQLite())
	var once sync.Once
	w.exec = func(text string) {
		if strings.Contains(text, "UPDATE") {
			once.Do(func() {
				must(t, other.Release(t.Context(), lease))
				must(t, other.Complete(t.Context(), lease, result("answer")))
			})
		}
	}
	if r := find(t, store, takeOver("key")); string(r.Body) != "answer" {
		t.Errorf("the record is %+v, want the response", r)
	}
}

// A statement that the database has forgotten is closed when its last user is done. The
// caller that has found it forgotten does not wait for the others.
func TestForgottenStatementInUse(t *testing.T) {
	t.Parallel()
	var w watched
	store := openWatched(t, &w)
	finish(t, store, "key")
	var once sync.Once
	running, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	forgotten := errors.New("Error 1615 (HY000): Prepared statement needs to be re-prepared")
	w.query = func(text string) (err error) {
		if !strings.Contains(text, "SELECT") {
			return nil
		}
		first := false
		once.Do(func() { first = true })
		if !first {
			return forgotten
		}
		close(running)
		<-release
		return nil
	}
	go func() {
		defer close(ended)
		_, _ = store.Lookup(context.WithoutCancel(t.Context()), "key")
	}()
	<-running
	start := time.Now()
	err := limited(t, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := store.Lookup(ctx, "key")
		return err
	})
	if took := time.Since(start); err == nil || took > 30*time.Second {
		t.Errorf("Lookup returned %v after %s, want an error at the end of its context", err, took)
	}
	close(release)
	<-ended
}

// A pool without idle connections prepares each statement for each call.
func TestPoolWithoutIdleConnections(t *testing.T) {
	t.Parallel()
	over(t, outlasting, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		db.SetMaxIdleConns(-1)
		goThroughLife(t, store, "key")
		race(t, store, 16, claim, 1)
		testkit.Equal(t, db.Stats().OpenConnections, 0, "connections that are open")
	})
}

// A table may change while its statements are prepared: columns are added or get
// another type, or the table is made anew.
func TestTableChangesUnderPreparedStatements(t *testing.T) {
	t.Parallel()
	over(t, outlasting, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		use := func(key string) {
			must(t, store.Release(t.Context(), win(t, store, claim(key))))
			must(t, store.Extend(t.Context(), win(t, store, claim(key)), 0))
			must(t, store.Complete(t.Context(), win(t, store, takeOver(key)), result(key)))
		}
		use("before")
		changes := map[string][]string{
			"postgresql": {
				`ALTER TABLE oncekey_records ADD COLUMN extra int`, `ALTER TABLE oncekey_records ALTER COLUMN sketch TYPE text USING encode(sketch, 'escape')`,
				`ALTER TABLE oncekey_records ALTER COLUMN sketch TYPE bytea USING sketch::bytea`,
			},
			"mysql": {
				`ALTER TABLE oncekey_records ADD COLUMN extra int FIRST`, `ALTER TABLE oncekey_records MODIFY sketch longtext`,
				`ALTER TABLE oncekey_records MODIFY sketch blob`,
			},
			"sqlite": {
				`ALTER TABLE oncekey_records ADD COLUMN extra int`, `CREATE TABLE copied AS SELECT * FROM oncekey_records`,
				`DROP TABLE oncekey_records`, `ALTER TABLE copied RENAME TO oncekey_records`, `CREATE UNIQUE INDEX k ON oncekey_records (record_key)`,
			},
		}[s.database]
		for i, change := range changes {
			execute(t, db, change)
			if s.database == "sqlite" && i > 0 && i < len(changes)-1 {
				continue // the table is not whole
			}
			if r := find(t, store, claim("before")); string(r.Body) != "before" || string(r.Sketch) != "sketch of before" {
				t.Errorf("after %s the record is %+v, want it whole", change, r)
			}
			use(fmt.Sprint("after ", i))
		}
	})
}

// MySQL's errors 1615 and 1243: the server or a proxy has lost a prepared statement.
func TestLostStatementIsPreparedAgain(t *testing.T) {
	t.Parallel()
	store, db := mariadb.open(t)
	must(t, store.Check(t.Context()))
	execute(t, db, `CREATE TABLE tries (n int) ENGINE = MyISAM`) // its rows outlive the rollback
	execute(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON oncekey_records FOR EACH ROW BEGIN
DECLARE seen int DEFAULT (SELECT count(*) FROM tries); INSERT INTO tries VALUES (1);
IF seen = 0 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1615, MESSAGE_TEXT = 'Prepared statement needs to be re-prepared'; END IF;
IF seen = 1 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1243, MESSAGE_TEXT = 'Unknown prepared statement handler'; END IF; END`)
	lease := win(t, store, claim("key"))
	counts(t, db, 3, `SELECT count(*) FROM tries`)
	must(t, store.Extend(t.Context(), lease, time.Minute))
}
