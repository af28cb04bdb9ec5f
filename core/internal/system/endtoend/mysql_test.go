package endtoend

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
)

// mysqlStop is a place where a transfer can be made to wait.
type mysqlStop struct {
	lock    string // by a transaction of the test
	waiting string // a part of the process's statement, from its first 100 bytes
}

// The places in their order. MySQL has no deferred triggers, so none is in the commit. The
// tests of core/sqlstore kill the server there.
var (
	mysqlBeforeItsWrites  = mysqlStop{`SELECT name FROM payments_accounts WHERE name = 'alice' FOR UPDATE`, `UPDATE payments_accounts`}
	mysqlBetweenItsWrites = mysqlStop{`SELECT name FROM payments_accounts WHERE name = 'bob' FOR UPDATE`, `UPDATE payments_accounts`}
	mysqlAtItsLastWrite   = mysqlStop{`SELECT number FROM payments_transfers FOR UPDATE`, `INSERT INTO payments_transfers`} // locks the gaps
	mysqlAtItsRecord      = mysqlStop{`SELECT record_key FROM oncekey_records FOR UPDATE`, " oncekey_records SET\n\tstate = "}
)

// onEachMySQL runs a test on both vendors' servers.
func onEachMySQL(t *testing.T, lockTTL time.Duration, test func(t *testing.T, f *mysqlFixture)) {
	t.Helper()
	for name, newFixture := range map[string]func(*testing.T, time.Duration) *fixture{"mysql": newMySQLFixture, "mariadb": newMariaDBFixture} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, lockTTL)
			dsn := f.flags[len(f.flags)-1]
			_, name, _ := strings.Cut(dsn, "/")
			test(t, &mysqlFixture{f, service.SQL(t, "mysql", dsn), name})
		})
	}
}

// mysqlFixture is a fixture with the test's own access to its database.
type mysqlFixture struct {
	*fixture
	db   *sql.DB
	name string // of the database
}

// raise makes transfers wait until the test lifts the barrier.
func (f *mysqlFixture) raise(stop mysqlStop) (lift func()) {
	f.t.Helper()
	tx, err := f.db.BeginTx(context.WithoutCancel(f.t.Context()), nil)
	testkit.Must(f.t, err)
	lift = func() { _ = tx.Rollback() } // it may have ended
	f.t.Cleanup(lift)
	rows, err := tx.QueryContext(f.t.Context(), stop.lock)
	testkit.Must(f.t, err)
	defer rows.Close()
	for rows.Next() { // locks each row
	}
	testkit.Must(f.t, rows.Err())
	return lift
}

// await returns when a process waits at the stop. One that is seen twice waits.
func (f *mysqlFixture) await(stop mysqlStop) {
	f.t.Helper()
	before := ""
	testkit.Await(f.t, "for a statement to wait at the barrier", func() bool {
		id := f.running(stop.waiting)
		seen := id != "" && id == before
		before = id
		return seen
	})
}

// running returns the connection that runs a statement with this part, or nothing.
// information_schema.processlist fails in MySQL while a statement has binary values.
func (f *mysqlFixture) running(part string) (id string) {
	f.t.Helper()
	rows, err := f.db.QueryContext(f.t.Context(), `SHOW FULL PROCESSLIST`)
	testkit.Must(f.t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	testkit.Must(f.t, err)
	for rows.Next() {
		var number, user, host, database, command, time, state, statement sql.NullString
		all := []any{&number, &user, &host, &database, &command, &time, &state, &statement, new(any)}
		if err := rows.Scan(all[:len(columns)]...); err != nil { // MariaDB adds its progress
			f.t.Fatal(err)
		}
		if database.String == f.name && (command.String == "Query" || command.String == "Execute") && strings.Contains(statement.String, part) {
			id = number.String
		}
	}
	testkit.Must(f.t, rows.Err())
	return id
}

// beginUntil sends a request, and returns when it waits at the last of the stops.
func (f *mysqlFixture) beginUntil(i *instance, r request, stops ...mysqlStop) (answers <-chan answer, lift func()) {
	f.t.Helper()
	lift = f.raise(stops[0])
	answers = i.begin(r)
	f.await(stops[0])
	for _, next := range stops[1:] {
		before := lift
		lift = f.raise(next)
		before()
		f.await(next)
	}
	return answers, lift
}

// expectMoved compares the keys of the transfers and the accounts: each transfer has moved
// 100 from alice to bob.
func (f *mysqlFixture) expectMoved(keys ...string) {
	f.t.Helper()
	rows, err := f.db.QueryContext(f.t.Context(), `SELECT request_key FROM payments_transfers ORDER BY request_key`)
	testkit.Must(f.t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var key string
		testkit.Must(f.t, rows.Scan(&key))
		got = append(got, key)
	}
	if err := rows.Err(); err != nil || !slices.Equal(got, keys) {
		f.t.Errorf("there are transfers for %q (%v), want %q", got, err, keys)
	}
	moved := int64(100 * len(keys))
	for name, want := range map[string]int64{"alice": 10_000 - moved, "bob": 10_000 + moved, "carol": 10_000} {
		var balance int64
		if err := f.db.QueryRowContext(f.t.Context(), `SELECT balance FROM payments_accounts WHERE name = ?`, name).Scan(&balance); err != nil || balance != want {
			f.t.Errorf("%s has %d (%v), want %d", name, balance, err, want)
		}
	}
}

// Cases 3, 4 and 7: the process is killed at each point before its commit. The money of
// the killed attempt does not move, and that of the next attempt moves once.
func TestKilledInTheTransferOnMySQL(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, 3*time.Second, func(t *testing.T, f *mysqlFixture) {
		other := f.start("gin")
		var keys []string
		for n, stops := range [][]mysqlStop{
			{mysqlBeforeItsWrites}, {mysqlBetweenItsWrites}, {mysqlAtItsLastWrite}, {mysqlAtItsLastWrite, mysqlAtItsRecord},
		} {
			victim := f.start("chi")
			move := transfer(fmt.Sprintf("key-%d", n))
			keys = append(keys, move.key)

			answers, lift := f.beginUntil(victim, move, stops...)
			victim.Kill()
			if last := <-answers; last.err == nil {
				last.expect(t, unconfirmed) // the kill came after the response
			}
			lift()

			original := other.retryWhile(move, inProgress).expect(t, created)
			other.expectEvent("lease_expired")
			other.send(move).expectCopyOf(t, original)
			f.expectMoved(keys...)
		}
	})
}

// Cases 5, 6 and 7: a frozen process keeps its rows locked until the server closes its
// idle connection.
func TestFrozenInTheTransferOnMySQL(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, 3*time.Second, func(t *testing.T, f *mysqlFixture) {
		freezeInTheTransfer(t, f.fixture, func(first *instance, move request) (<-chan answer, func()) {
			return f.beginUntil(first, move, mysqlBetweenItsWrites)
		}, f.expectMoved)
	})
}

// A refusal is kept, and the writes before the refusal are undone.
func TestRefusedTransferMovesNothingOnMySQL(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, 30*time.Second, func(t *testing.T, f *mysqlFixture) {
		first, second := f.startTwo()
		for key, test := range map[string]struct {
			body   string
			status int
		}{
			"too-much":           {`{"from":"alice","to":"bob","amount":10001}`, http.StatusPaymentRequired},
			"after-the-credit":   {`{"from":"carol","to":"bob","amount":10001}`, http.StatusPaymentRequired},
			"after-the-debit":    {`{"from":"alice","to":"zoe","amount":1}`, http.StatusNotFound},
			"an-unknown-account": {`{"from":"zoe","to":"alice","amount":1}`, http.StatusNotFound},
		} {
			move := transfer(key)
			move.body = test.body
			original := first.send(move).expect(t, want{status: test.status})
			second.send(move).expectCopyOf(t, original)
		}
		f.expectMoved()

		move := transfer("moved")
		first.send(move).expect(t, created)
		if _, err := f.db.ExecContext(t.Context(), `DELETE FROM oncekey_records`); err != nil {
			t.Fatal(err)
		}
		second.send(move).expect(t, want{status: http.StatusConflict}) // the row is the last line of defence
		f.expectMoved(move.key)
	})
}
