package sqlstore

import (
	"context"
	"database/sql"
	"reflect"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// refusedNumbers are the errors with which MySQL and MariaDB refuse a row for good.
var refusedNumbers = []int{
	1048,                         // null in a column that takes none
	1118,                         // the row is too large for the engine or its log
	1264, 1265, 1292, 1366, 1406, // the value does not fit the column
	1690,       // a number of the row cannot grow
	1364,       // a column without a default
	1216, 1452, // a foreign key
	1644,       // a trigger's SIGNAL
	3819, 4025, // a CHECK constraint, of MySQL and of MariaDB
}

const (
	mysqlPacket = 1153
	// mysqlUnknown is one of many errors, of which mysqlLongData is one: a parameter is
	// larger than max_allowed_packet, in this or in an earlier call of the connection.
	mysqlUnknown, mysqlLongData = 1105, -1105
)

// refusedCodes are the primary result codes with which SQLite refuses a row for good.
var refusedCodes = []int{sqliteTooBig, sqliteConstraint, sqliteMismatch}

// packetTooLarge is of an error without a code: go-sql-driver/mysql's own limit.
const packetTooLarge = "packet for query is too large"

// refusedForGood: MySQL, MariaDB or SQLite refuses this row, now and later.
func (f fault) refusedForGood() bool {
	return slices.Contains(refusedNumbers, f.number) || slices.Contains(refusedCodes, f.sqlite)
}

// notStorableError marks the error of a write that the database refuses for good.
type notStorableError struct{ error }

func (e *notStorableError) Error() string {
	return storage.ErrNotStorable.Error() + ": " + e.error.Error()
}

func (e *notStorableError) Unwrap() error { return e.error }

func (*notStorableError) Is(target error) bool { return target == storage.ErrNotStorable }

// neverStores reports whether the database refuses the arguments of a write for good.
func (s *Store) neverStores(ctx context.Context, tx *sql.Tx, a *sqlrows.Arguments, err error) bool {
	f := faultOf(err)
	if f.refusedForGood() || sqlrows.RefusedForGood(f.state, err.Error()) || strings.Contains(err.Error(), packetTooLarge) {
		return true
	}
	silent := f.number == 0 && ctx.Err() == nil && a.Size() >= largePacket
	if s.dialect.largestPacket == "" || !silent && f.number != mysqlPacket && f.number != mysqlLongData {
		return false
	}
	// A transaction has a connection of the pool already, and is rolled back anyway.
	return tx == nil && s.exceedsPacket(ctx, a.Size()) || f.number == mysqlPacket
}

// largePacket is a size from which a packet may be the reason that a connection has ended.
// The server ends the connection over a packet that is too large, often before the driver
// has read the error.
const largePacket = 64 << 10

// exceedsPacket asks the server for the size of its largest packet. The first connection
// that the pool gives may be the one that the server has ended: the next call of the store
// then gets another one.
func (s *Store) exceedsPacket(ctx context.Context, size int) bool {
	const tries, overhead = 3, 1024
	for range tries {
		limit, err := ask(ctx, s, func() (limit int, err error) {
			err = s.db.QueryRowContext(ctx, s.dialect.largestPacket).Scan(&limit)
			return limit, err
		})
		if err == nil {
			return size+overhead > limit
		}
	}
	return false
}

// cgoCode is the result code of an error of mattn/go-sqlite3, which has it in a field and
// no method for it, or 0.
func cgoCode(err error) int {
	value := reflect.ValueOf(err)
	if value.Kind() != reflect.Struct || !strings.HasSuffix(value.Type().PkgPath(), "/go-sqlite3") {
		return 0
	}
	if code := value.FieldByName("Code"); code.IsValid() && code.CanInt() {
		return int(code.Int())
	}
	return 0
}
