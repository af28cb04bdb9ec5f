package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 98: the table of the records is locked, and calls run out of time. Their statements
// end at the server while the table stays locked, unless the pool counts their connections. So
// they do not use up the server's.
func TestLockedTableOfRecords(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		dsn := s.dsn(t)
		s.dsn = func(testing.TB) string { return dsn }
		store, db := s.open(t)
		lease := win(t, store, claim("held"))
		const callers, calls = 10, 3
		ignored := 0
		lock, waiting := `LOCK TABLES oncekey_records WRITE`, `SELECT count(*) FROM information_schema.processlist WHERE db = database() AND state LIKE 'Waiting%'`
		if s.database == "postgresql" {
			lock = `BEGIN; LOCK TABLE oncekey_records`
			waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
			ignored = 5 // a request to cancel that a busy server gets before its statement has no effect
		}
		locking := s.connect(t, dsn)
		connection, err := locking.Conn(t.Context())
		must(t, err)
		_, err = connection.ExecContext(t.Context(), lock)
		must(t, err)
		testkit.Concurrently(callers, func(n int) {
			for range calls {
				for _, call := range []func(ctx context.Context) error{
					func(ctx context.Context) error { _, _, err := store.Acquire(ctx, claim(fmt.Sprint(n))); return err },
					func(ctx context.Context) error { return store.Extend(ctx, lease, time.Minute) },
					func(ctx context.Context) error { _, err := store.Lookup(ctx, "held"); return err },
				} {
					if limited(t, 100*time.Millisecond, call) == nil {
						t.Error("a call over a locked table has succeeded")
					}
				}
			}
		})
		// lib/pq may wait longer than its call, with a connection of the pool.
		eventually(t, func() bool { return count(t, db, waiting) <= db.Stats().InUse+ignored })
		must(t, connection.Close())
		must(t, locking.Close()) // unlocks
		eventually(t, func() bool { return store.Extend(t.Context(), lease, time.Minute) == nil })
	})
}

// Case 98: statements that calls have left behind at the server count for the limit of the pool.
func TestLockedTableTakesNoMoreConnections(t *testing.T) {
	t.Parallel()
	overOwnServer(t, ofMySQL, nil, func(t *testing.T, server ownServer, store *sqlstore.Store, db *sql.DB) {
		const most, callers, calls = 12, 40, 20
		db.SetMaxOpenConns(most)
		win(t, store, claim("held"))
		other, err := sql.Open("mysql", server.DSN())
		must(t, err)
		defer other.Close()
		lock, err := other.Conn(t.Context())
		must(t, err)
		_, err = lock.ExecContext(t.Context(), `LOCK TABLES oncekey_records WRITE`)
		must(t, err)
		end, began := make(chan struct{}), time.Now()
		var highest atomic.Int64
		go func() {
			defer close(end)
			testkit.Concurrently(callers, func(n int) {
				for made := 0; made < calls || time.Since(began) < time.Minute && highest.Load() < most; made++ { // a busy machine connects slowly, and gets longer for it
					_ = limited(t, 50*time.Millisecond<<(made/calls), func(ctx context.Context) error {
						_, _, err := store.Acquire(ctx, claim(fmt.Sprint(n)))
						return err
					})
				}
			})
		}()
		for ended := false; !ended; {
			select {
			case <-end:
				ended = true
			case <-time.After(5 * time.Millisecond):
				var name string
				var connected int64
				must(t, other.QueryRowContext(t.Context(), `SHOW GLOBAL STATUS LIKE 'Threads_connected'`).Scan(&name, &connected))
				highest.Store(max(highest.Load(), connected))
			}
		}
		if highest := highest.Load(); highest < most || highest > 2*most { // with the two of this test, and idle ones
			t.Errorf("the server had %d connections, want from %d to %d", highest, most, 2*most)
		}
		must(t, lock.Close())
		must(t, other.Close()) // unlocks
		eventually(t, func() bool { return store.Extend(t.Context(), win(t, store, claim("later")), time.Minute) == nil })
	})
}

// count runs a query that counts. MySQL's list of processes fails while a statement has a
// parameter that is no text.
func count(t testing.TB, db *sql.DB, query string) (n int) {
	t.Helper()
	eventually(t, func() bool {
		err := db.QueryRowContext(t.Context(), query).Scan(&n)
		if err != nil && !strings.Contains(err.Error(), "Error 3854") {
			t.Error(err)
		}
		return err == nil
	})
	return n
}
