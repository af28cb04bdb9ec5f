package soak

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/internal/explore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

// newMariaDB has pods with pools of two sizes. The smaller pool keeps few connections
// idle, so it dials often, and prepares its statements again.
func newMariaDB(t *testing.T) *setting {
	t.Helper()
	mariadb := mysqltest.MariaDB.Start(t, "max_connections=800", "idle_transaction_timeout=5")
	mariadb.Execute("CREATE DATABASE soak")
	open := func(address string) (*sql.DB, error) {
		return sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/soak", address))
	}
	operator := openSQL(t, sqlstore.MySQL(), func() (*sql.DB, error) { return open(mariadb.Addr()) })
	var dials atomic.Uint64
	return &setting{
		Backend: explore.Backend{
			Inspector: sqlstore.New(operator, sqlstore.MySQL()),
			Written: func(ctx context.Context, tenant string) ([]int, error) {
				return requests(ctx, operator, tenant)
			},
			Connect: func() (*explore.Connection, error) {
				proxy, err := faultproxy.Open(mariadb.Addr())
				if err != nil {
					return nil, err
				}
				db, err := open(proxy.Addr())
				if err != nil {
					return nil, err
				}
				db.SetMaxOpenConns(connections)
				db.SetMaxIdleConns(connections)
				if dials.Add(1)%2 == 0 {
					db.SetMaxOpenConns(few)
					db.SetMaxIdleConns(2)
				}
				return &explore.Connection{
					Store: sqlstore.New(db, sqlstore.MySQL()), Networks: []*faultproxy.Proxy{proxy}, Write: writeSQL,
					Close: func() { proxy.Close(); db.Close() },
				}, nil
			},
		},
		servers: []server{mariadb}, together: 8,
	}
}

// newSQLite has a file that each pod opens as a process of its own would. It has no
// network: the plans' faults of the network do nothing.
func newSQLite(t *testing.T) *setting {
	t.Helper()
	name := "file:" + filepath.Join(t.TempDir(), "records.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(5000)"
	open := func() (*sql.DB, error) { return sql.Open("sqlite", name) }
	operator := openSQL(t, sqlstore.SQLite(), open)
	return &setting{
		Backend: explore.Backend{
			Inspector: sqlstore.New(operator, sqlstore.SQLite()),
			Connect: func() (*explore.Connection, error) {
				db, err := open()
				if err != nil {
					return nil, err
				}
				return &explore.Connection{Store: sqlstore.New(db, sqlstore.SQLite()), Close: func() { db.Close() }}, nil
			},
		},
		servers: []server{&otherWriter{t: t, db: operator}}, together: 4,
	}
}

// openSQL returns a pool on a migrated database with a table for the effects.
func openSQL(t *testing.T, dialect sqlstore.Dialect, open func() (*sql.DB, error)) *sql.DB {
	t.Helper()
	db, err := open()
	testkit.Must(t, err)
	t.Cleanup(func() { db.Close() })
	testkit.Must(t, sqlstore.Migrate(t.Context(), db, dialect))
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE effects (tenant varchar(40), request int)`); err != nil {
		t.Fatal(err)
	}
	return db
}

func writeSQL(ctx, handler context.Context, tenant string, request int) error {
	tx, err := sqlstore.Tx(handler)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO effects VALUES (?, ?)`, tenant, request)
	return err
}

func requests(ctx context.Context, db *sql.DB, tenant string) (all []int, err error) {
	rows, err := db.QueryContext(ctx, `SELECT request FROM effects WHERE tenant = ?`, tenant)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var request int
		if err := rows.Scan(&request); err != nil {
			return nil, err
		}
		all = append(all, request)
	}
	return all, rows.Err()
}

// otherWriter is the weather of an SQLite file: another process that takes the lock of all
// writes. Paused, it commits late. Killed, it never commits. A restart while it runs moves
// the log into the file.
type otherWriter struct {
	t    *testing.T
	db   *sql.DB
	held *sql.Conn // in a transaction; nil: the lock is free
}

// lockPatience bounds the wait for the lock, which all pods want too.
const lockPatience = time.Minute

// run runs statements, each until the file is not busy.
func (w *otherWriter) run(on *sql.Conn, statements ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	for _, statement := range statements {
		for {
			_, err := on.ExecContext(ctx, statement)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				w.t.Errorf("%s: %v", statement, err)
				return
			}
		}
	}
}

func (w *otherWriter) connect() *sql.Conn {
	connection, err := w.db.Conn(context.Background())
	if err != nil {
		w.t.Error(err)
	}
	return connection
}

// Pause takes the lock.
func (w *otherWriter) Pause() {
	w.held = w.connect()
	w.run(w.held, `BEGIN IMMEDIATE`, `INSERT INTO effects VALUES ('another process', 0)`)
}

// Resume commits.
func (w *otherWriter) Resume() {
	w.run(w.held, `COMMIT`)
	w.held.Close()
	w.held = nil
}

// Kill takes the lock, which is held until Restart.
func (w *otherWriter) Kill() { w.Pause() }

// Restart ends the connection of a killed writer within its transaction.
func (w *otherWriter) Restart() {
	if w.held == nil {
		connection := w.connect()
		w.run(connection, `PRAGMA wal_checkpoint(TRUNCATE)`)
		connection.Close()
		return
	}
	_ = w.held.Raw(func(any) error { return driver.ErrBadConn }) // closes the connection
	w.held = nil
}
