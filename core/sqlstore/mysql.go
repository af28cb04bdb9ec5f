package sqlstore

import "strings"

// A call whose context has ended closes its connection. The server does not notice while
// it waits for a lock: for a year in MySQL, and a day in MariaDB, if the table is locked
// (LOCK TABLES, ALTER TABLE). Such connections would use up the server's. So a statement
// waits for a second at most. MySQL reads the hint, and MariaDB the comment before the
// statement. The wait for a row has its own limit, innodb_lock_wait_timeout.
const (
	mysqlHint = ` /*+ SET_VAR(lock_wait_timeout=1) */`

	mariadbBefore = `/*M!100600 SET STATEMENT lock_wait_timeout=1 FOR */ `

	// mariadbNewest lets a statement in a handler's transaction write the newest version
	// of the record. With innodb_snapshot_isolation, on since MariaDB 11.6, the server
	// refuses a row that has changed since the handler's first read (error 1020), and each
	// renewal and each step change the record. MySQL, and MariaDB without the setting,
	// always lock and write the newest version. The handler's own statements keep the
	// setting.
	mariadbNewest = `/*M!100600 SET STATEMENT lock_wait_timeout=1, innodb_snapshot_isolation=OFF FOR */ `
)

// mysqlLimited adds the limits to a statement.
func mysqlLimited(text string) string {
	verb, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	return mariadbBefore + verb + mysqlHint + " " + rest
}

// forTransaction is the statement in a handler's transaction, or nil if it is the same.
// Servers before 10.6.18, 10.11.8 and 11.2.4 do not know the setting, and need no other
// statement.
func (d *dialect) forTransaction(of *statement) *statement {
	if d.newest == "" {
		return nil
	}
	changed := of.Statement
	changed.Text = strings.Replace(of.Text, mariadbBefore, d.newest, 1)
	return &statement{Statement: changed, simple: of.Text}
}
