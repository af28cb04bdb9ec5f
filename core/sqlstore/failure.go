package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// Codes of SQLSTATE.
const (
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	insufficientPrivilege = "42501"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	noSavepoint           = "3B001"
	noTransaction         = "25P01"
	failedTransaction     = "25P02"
	invalidStatementName  = "26000"
	duplicateStatement    = "42P05"
	protocolViolation     = "08P01"
	// planChanged: the columns that a prepared statement returns have other types since
	// a change of the table. pgx prepares the statement again after this error.
	planChanged = "0A000"
	// rollbackUnknown says that the end of a transaction is unknown.
	rollbackUnknown = "40003"
)

// Errors of MySQL and MariaDB.
const (
	mysqlDuplicate    = 1062
	mysqlLockWait     = 1205
	mysqlDeadlock     = 1213
	mysqlDenied       = 1044 // to a database
	mysqlTableDenied  = 1142
	mysqlColumnDenied = 1143
	mysqlNoTable      = 1146
	mysqlNoColumn     = 1054
	mysqlNoSavepoint  = 1305
	mysqlConflict     = 3101 // of Group Replication, at the commit
	// The server has another version than the one for which the statement was prepared: it
	// has refused a row that a snapshot does not have, or does not know a variable.
	mysqlRecordChanged = 1020
	mysqlNoVariable    = 1193
)

// staleNumbers are of a prepared statement that is gone, because the table has changed too
// often meanwhile, or because a proxy has led it to a session that does not know it; or
// that has kept a part of an earlier call, whose packet was too large; or that was prepared
// for another version of the server.
var staleNumbers = []int{1615, 1243, 1210, mysqlLongData, mysqlRecordChanged, mysqlNoVariable}

// Primary result codes of SQLite.
const (
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteReadOnly   = 8
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteMismatch   = 20
	sqlitePrimary    = 0xff // the bits of a primary code
)

// fault is the cause that a driver's error names.
type fault struct {
	state  string // SQLSTATE
	number int    // of MySQL
	sqlite int    // primary result code
	// stale: the statement was not run, and needs to be prepared again.
	stale bool
}

// mysqlPattern is the text of an error of go-sql-driver/mysql, which has its number in
// a field, and no method for it. That of go-mysql-org writes ERROR.
var mysqlPattern = regexp.MustCompile(`^(?i:error) (\d+)(?: \([0-9A-Z]{5}\))?: `)

// statePattern ends the text of an error of a PostgreSQL driver without SQLState, as bun's
// pgdriver, or of an error that a program's wrapper has made from the text.
var statePattern = regexp.MustCompile(`\(SQLSTATE[= ]([0-9A-Z]{5})\)$`)

// sqliteTexts are the codes of ncruces/go-sqlite3, whose method Code has a type of its own, by the text behind sqlitePrefix.
var sqliteTexts = map[string]int{
	"database is locked": sqliteBusy, "database table is locked": sqliteLocked, "attempt to write a readonly database": sqliteReadOnly,
	"string or blob too big": sqliteTooBig, "constraint failed": sqliteConstraint, "datatype mismatch": sqliteMismatch,
}

const sqlitePrefix = "sqlite3: "

// mysqlNumber is the number of an error of go-sql-driver/mysql, or 0.
func mysqlNumber(err error) int {
	found := mysqlPattern.FindStringSubmatch(err.Error())
	if found == nil {
		return 0
	}
	number, _ := strconv.Atoi(found[1]) // the pattern has digits only
	if number == mysqlUnknown && strings.Contains(err.Error(), "mysql_send_long_data") {
		return mysqlLongData
	}
	return number
}

// faultOf reads a driver's error. Importing the drivers for their types would make each
// program depend on all of them. Drivers of PostgreSQL have the method SQLState, and
// those of SQLite the method Code or a text.
func faultOf(err error) (f fault) {
	var withState interface{ SQLState() string }
	var withCode interface{ Code() int }
	if errors.As(err, &withState) {
		f.state = withState.SQLState()
	} else if err != nil {
		f.state = stateIn(err.Error())
	}
	if errors.As(err, &withCode) {
		f.sqlite = withCode.Code() & sqlitePrimary
	}
	for ; err != nil; err = errors.Unwrap(err) {
		f.sqlite = max(f.sqlite, cgoCode(err)&sqlitePrimary)
		switch err.Error() { // of mattn/go-sqlite3 and database/sql
		case "database is locked":
			f.sqlite = sqliteBusy
		case "attempt to write a readonly database":
			f.sqlite = sqliteReadOnly
		case "sql: statement is closed": // another call has found it stale
			f.stale = true
		}
		if number := mysqlNumber(err); number != 0 {
			f.number = number
		}
		if text, is := strings.CutPrefix(err.Error(), sqlitePrefix); is {
			text, _, _ = strings.Cut(text, ": ") // the rest names the row
			f.sqlite = max(f.sqlite, sqliteTexts[text])
		}
	}
	f.stale = f.stale || f.state == planChanged || slices.Contains(staleNumbers, f.number)
	return f
}

// stateIn is the SQLSTATE at the end of a text, or "".
func stateIn(text string) string {
	if found := statePattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// contended: the database has certainly rolled the statement back, in favour of
// another one.
func (f fault) contended() bool {
	return f.state == serializationFailure || f.state == deadlockDetected || f.number == mysqlDeadlock || f.number == mysqlLockWait ||
		f.number == mysqlConflict || f.sqlite == sqliteBusy || f.sqlite == sqliteLocked
}

// isRepeatable: the statement changed no row, and may do better now.
func isRepeatable(err error) bool {
	f := faultOf(err)
	return f.contended() || f.stale
}

// isBarred: no replay can be read after this error either.
func isBarred(err error) bool {
	f := faultOf(err)
	return f.contended() || f.forbidden()
}

func isDuplicate(err error) bool { return faultOf(err).number == mysqlDuplicate }

func (f fault) forbidden() bool {
	return f.state == insufficientPrivilege || f.number == mysqlDenied || f.number == mysqlTableDenied || f.number == mysqlColumnDenied ||
		f.sqlite == sqliteReadOnly
}

func (f fault) unmigrated() bool {
	return f.state == undefinedTable || f.state == undefinedColumn || f.number == mysqlNoTable || f.number == mysqlNoColumn
}

// refused: a COMMIT that failed with this has certainly rolled back.
func (f fault) refused() bool {
	const rollback, integrity = "40", "23"
	class := f.state[:min(len(rollback), len(f.state))]
	return (class == rollback || class == integrity) && f.state != rollbackUnknown || f.number == mysqlDeadlock || f.number == mysqlConflict
}

// noSavepoint: the transaction of the savepoint has ended.
func (f fault) noSavepoint() bool {
	return f.state == noSavepoint || f.state == noTransaction || f.number == mysqlNoSavepoint
}

// mixedUp: another session has run the statement than the one that has prepared it. lib/pq then
// binds the arguments to the statement of another client.
func (f fault) mixedUp(err error) bool {
	return f.state == invalidStatementName || f.state == duplicateStatement ||
		f.state == protocolViolation && strings.Contains(err.Error(), "bind message")
}

// explained adds the remedy to an error of the database: a missing table, a missing right, a
// pooler, a file in use, or a pool in use.
func (s *Store) explained(err error) error {
	switch f := faultOf(err); {
	case sqlrows.TakesNoChanges(f.state):
		s.proof.Doubt() // the next claim is refused
		return err
	case f.unmigrated(), missingTable.MatchString(err.Error()):
		return fmt.Errorf("table %s is missing or of another version, run sqlstore.Migrate first: %w", s.table, err)
	case f.forbidden():
		s.proof.Doubt() // the next claim finds the missing right
		return fmt.Errorf("%w: %s: %w", storage.ErrStoreForbidden, sqlrows.InTable(s.table, s.dialect.grant), err)
	case f.mixedUp(err):
		return fmt.Errorf("a pooler gives this pool changing sessions, set default_query_exec_mode=exec for pgx, or binary_parameters=yes for lib/pq: %w", err)
	default:
		if s.dialect.singleWriter && errors.Is(err, context.DeadlineExceeded) { // drivers do not say for what they waited
			err = fmt.Errorf("another connection or process has locked the file, or the disk is slow: %w", err)
		}
		pool := s.db.Stats()
		return sqlrows.InFullPool(err, pool.InUse, pool.MaxOpenConnections)
	}
}

// missingTable matches SQLite's error, which has no code of its own.
var missingTable = regexp.MustCompile(`no such (table|column)`)
