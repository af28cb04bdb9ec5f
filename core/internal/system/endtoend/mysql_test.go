package endtoend

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// The places where a transfer can be made to wait, in their order. MySQL has no deferred triggers, so none is in the commit. The
// tests of core/sqlstore kill the server there.
var (
	mysqlBeforeItsWrites  = stop{`SELECT name FROM payments_accounts WHERE name = 'alice' FOR UPDATE`, `UPDATE payments_accounts`}
	mysqlBetweenItsWrites = stop{`SELECT name FROM payments_accounts WHERE name = 'bob' FOR UPDATE`, `UPDATE payments_accounts`}
	mysqlAtItsLastWrite   = stop{`SELECT number FROM payments_transfers FOR UPDATE`, `INSERT INTO payments_transfers`} // locks the gaps
	mysqlAtItsRecord      = stop{`SELECT record_key FROM oncekey_records FOR UPDATE`, " oncekey_records SET\n\tstate = "}
)

// onEachMySQL runs a test on both vendors' servers.
func onEachMySQL(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	testkit.Each(t, map[string]func(*testing.T, time.Duration) *fixture{"mysql": newMySQLFixture, "mariadb": newMariaDBFixture},
		func(t *testing.T, newFixture func(*testing.T, time.Duration) *fixture) {
			test(t, newFixture(t, 3*time.Second))
		})
}

// running returns the connection that runs a statement with this part, or 0.
// information_schema.processlist fails in MySQL while a statement has binary values.
func (d *database) running(part string) (id int) {
	d.t.Helper()
	_, name, _ := strings.Cut(d.dsn, "/")
	rows, err := d.db.QueryContext(d.t.Context(), `SHOW FULL PROCESSLIST`)
	testkit.Must(d.t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	testkit.Must(d.t, err)
	for rows.Next() {
		var number int
		var user, host, database, command, time, state, statement sql.NullString
		all := []any{&number, &user, &host, &database, &command, &time, &state, &statement, new(any)}
		if err := rows.Scan(all[:len(columns)]...); err != nil { // MariaDB adds its progress
			d.t.Fatal(err)
		}
		if database.String == name && (command.String == "Query" || command.String == "Execute") && strings.Contains(statement.String, part) {
			id = number
		}
	}
	testkit.Must(d.t, rows.Err())
	return id
}

// Cases 3, 4 and 7: the process is killed at each point before its commit. The money of
// the killed attempt does not move, and that of the next attempt moves once.
func TestKilledInTheTransferOnMySQL(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, f *fixture) {
		other := f.start("gin")
		var keys []string
		for n, stops := range [][]stop{
			{mysqlBeforeItsWrites}, {mysqlBetweenItsWrites}, {mysqlAtItsLastWrite}, {mysqlAtItsLastWrite, mysqlAtItsRecord},
		} {
			victim := f.start("chi")
			move := transfer(fmt.Sprintf("key-%d", n))
			keys = append(keys, move.key)

			killInTheTransfer(t, f, victim, other, move, false, stops...)
			f.expectTransfers(keys...)
		}
	})
}

// Cases 5, 6 and 7: a frozen process keeps its rows locked until the server closes its
// idle connection.
func TestFrozenInTheTransferOnMySQL(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, f *fixture) {
		freezeInTheTransfer(t, f, mysqlBetweenItsWrites)
	})
}
