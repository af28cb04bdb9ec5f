package sqlstore_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mysqltest "github.com/oncekey/oncekey/core/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
)

// benched are databases that wait for their disk.
var benched = []setUp{
	{name: "PostgreSQL", driver: "pgx", dialect: sqlstore.PostgreSQL(), dsn: func(t testing.TB) string {
		return postgrestest.Start(t, postgrestest.Durable()...).DSN()
	}},
	{name: "MariaDB", driver: "mysql", dialect: sqlstore.MySQL(), dsn: func(t testing.TB) string {
		return mysqltest.MariaDB.Start(t, "innodb_flush_method=O_DIRECT").DSN()
	}},
	{name: "SQLite", driver: "sqlite", dialect: sqlstore.SQLite(), dsn: sqliteFile(durable)},
}

var benchKeys atomic.Int64

func nextKey() string { return fmt.Sprintf("%064x", benchKeys.Add(1)) }

// BenchmarkStore compares a first-time request with one INSERT, and a replay with one
// SELECT by primary key, prepared and on the same pool.
//
//	go test -run '^$' -bench Store -benchtime 100x ./core/sqlstore
func BenchmarkStore(b *testing.B) {
	for _, s := range benched {
		b.Run(s.name, func(b *testing.B) {
			store, db := s.open(b)
			body := strings.Repeat("x", 256)
			execute(b, db, `CREATE TABLE plain (id varchar(64) NOT NULL PRIMARY KEY, body varchar(300) NOT NULL)`)
			insert, read := prepare(b, db, s, `INSERT INTO plain (id, body) VALUES (?, ?)`), prepare(b, db, s, `SELECT body FROM plain WHERE id = ?`)
			known := nextKey()
			execute(b, db, `INSERT INTO plain (id, body) VALUES ('`+known+`', '`+body+`')`)
			response := storage.Result{
				State: storage.Completed, Status: 201, Body: []byte(body), Retain: result("").Retain,
				Header: storage.Header{{Name: "Content-Type", Value: "application/json"}}, Sketch: []byte("12345678"),
			}
			must(b, store.Complete(b.Context(), win(b, store, claim(known)), response))
			first := func() error {
				lease, _, err := store.Acquire(b.Context(), claim(nextKey()))
				if err != nil {
					return err
				}
				return store.Complete(b.Context(), lease, response)
			}
			replay := func() error {
				_, record, err := store.Acquire(b.Context(), claim(known))
				if err == nil && len(record.Body) != len(body) {
					b.Errorf("the record is %+v, want the response", record)
				}
				return err
			}
			plainInsert := func() error {
				_, err := insert.ExecContext(b.Context(), nextKey(), body)
				return err
			}
			plainSelect := func() error {
				var found string
				return read.QueryRowContext(b.Context(), known).Scan(&found)
			}
			for _, callers := range []int{1, 16} {
				b.Run(fmt.Sprintf("first/c=%d", callers), func(b *testing.B) { compare(b, callers, 2, plainInsert, first) })
				b.Run(fmt.Sprintf("replay/c=%d", callers), func(b *testing.B) { compare(b, callers, 20, plainSelect, replay) })
			}
		})
	}
}

// compare runs two calls in turns, so that a busy machine slows both, and reports the
// ratio of their speeds.
func compare(b *testing.B, callers, calls int, plain, ours func() error) {
	b.Helper()
	var plains, all []time.Duration
	for range b.N {
		plains = append(plains, together(b, callers, calls, plain))
		all = append(all, together(b, callers, calls, ours))
	}
	slices.Sort(plains)
	slices.Sort(all)
	median := func(d []time.Duration) float64 { return float64(d[len(d)/2].Microseconds()) / float64(calls*callers) }
	b.ReportMetric(median(plains), "plain-us/call")
	b.ReportMetric(median(all), "us/call")
	b.ReportMetric(median(plains)/median(all), "of-plain")
}

// together makes calls from a number of goroutines, and returns the time.
func together(b *testing.B, callers, calls int, call func() error) time.Duration {
	b.Helper()
	failures := make(chan error, callers)
	start := time.Now()
	for range callers {
		go func() {
			for range calls {
				if err := call(); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	for range callers {
		must(b, <-failures)
	}
	return time.Since(start)
}

func prepare(b *testing.B, db *sql.DB, s setUp, statement string) *sql.Stmt {
	b.Helper()
	if s.driver == "pgx" {
		statement = strings.Replace(strings.Replace(statement, "?", "$1", 1), "?", "$2", 1)
	}
	prepared, err := db.PrepareContext(b.Context(), statement)
	must(b, err)
	b.Cleanup(func() { must(b, prepared.Close()) })
	return prepared
}
