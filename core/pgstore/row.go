package pgstore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errColumns: the row has more or fewer columns than its reader expects.
var errColumns = errors.New("a row has other columns than the statement selects")

// rawRow reads a row's columns one after another, in the server's format: binary or
// text, depending on the pool's query mode. pgx's own Scan chooses a decoder for each
// column of each row, which took a tenth of a replay's time.
//
// For null a method returns nil, or zero for types without nil. Returned bytes are
// copies.
type rawRow struct {
	fields []pgconn.FieldDescription
	values [][]byte
	err    error // the first error
}

func newRawRow(rows pgx.Rows) *rawRow {
	return &rawRow{fields: rows.FieldDescriptions(), values: rows.RawValues()}
}

// end returns the first error, if any.
func (r *rawRow) end() error {
	if r.err == nil && len(r.values) > 0 {
		return errColumns
	}
	return r.err
}

// next returns the next column, and whether it is binary.
func (r *rawRow) next() (value []byte, isBinary bool) {
	if len(r.values) == 0 {
		r.fail(errColumns)
		return nil, false
	}
	value, isBinary = r.values[0], r.fields[0].Format == pgx.BinaryFormatCode
	r.values, r.fields = r.values[1:], r.fields[1:]
	return value, isBinary
}

func (r *rawRow) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// number reads a smallint or a bigint, and returns false for null.
func (r *rawRow) number() (n int64, there bool) {
	value, isBinary := r.next()
	var err error
	switch {
	case value == nil:
		return 0, false
	case !isBinary:
		n, err = strconv.ParseInt(string(value), 10, 64)
	case len(value) == 2:
		n = int64(int16(binary.BigEndian.Uint16(value)))
	case len(value) == 8:
		n = int64(binary.BigEndian.Uint64(value))
	default:
		err = fmt.Errorf("a column is an integer of %d bytes, want 2 or 8", len(value))
	}
	if err != nil {
		r.fail(err)
	}
	return n, true
}

// integer reads a number that is null only where there is no row.
func (r *rawRow) integer() int64 {
	n, _ := r.number()
	return n
}

// optional reads a number that may be null.
func (r *rawRow) optional() *int64 {
	n, there := r.number()
	if !there {
		return nil
	}
	return &n
}

// text reads a text, which has the same bytes in both formats.
func (r *rawRow) text() string {
	value, _ := r.next()
	return string(value)
}

// won reads the result of the function claim_record.
func (r *rawRow) won() (attempt *int64, steps string) {
	const size = 8 // of the attempt
	result := r.bytes()
	if result == nil {
		return nil, ""
	}
	if len(result) < size {
		r.fail(fmt.Errorf("a claim returned %d bytes, want at least %d", len(result), size))
		return nil, ""
	}
	n := int64(binary.BigEndian.Uint64(result))
	return &n, string(result[size:])
}

// times reads several times that are one bytea, of 8 bytes each. A time is zero for
// infinity, and all are zero for null.
func (r *rawRow) times(moments ...*time.Time) {
	const size = 8
	value, _ := r.bytea()
	if value == nil {
		return
	}
	if len(value) != size*len(moments) {
		r.fail(fmt.Errorf("a column of times has %d bytes, want %d", len(value), size*len(moments)))
		return
	}
	for i, moment := range moments {
		*moment = fromEpoch(int64(binary.BigEndian.Uint64(value[size*i:])))
	}
}

// fromEpoch returns the time of a binary timestamptz: microseconds since 2000.
func fromEpoch(microseconds int64) time.Time {
	const epoch = 946_684_800 // 2000-01-01 in Unix seconds
	if microseconds == math.MinInt64 || microseconds == math.MaxInt64 {
		return time.Time{} // infinity
	}
	return time.UnixMicro(epoch*1_000_000 + microseconds).UTC()
}

// uuid reads a uuid. It returns zeroes for null.
func (r *rawRow) uuid() (id [16]byte) {
	value, isBinary := r.next()
	if value == nil {
		return id
	}
	if !isBinary {
		value, _ = hex.DecodeString(strings.ReplaceAll(string(value), "-", "")) // an error shows in the length below
	}
	if len(value) != len(id) {
		r.fail(fmt.Errorf("a column is a uuid of %d bytes, want %d", len(value), len(id)))
	}
	copy(id[:], value)
	return id
}

// json reads a jsonb.
func (r *rawRow) json() []byte {
	const version = 1 // first byte of a binary jsonb
	value, isBinary := r.next()
	if isBinary && len(value) > 0 && value[0] == version {
		value = value[1:]
	}
	return bytes.Clone(value)
}

// bytes reads a bytea.
func (r *rawRow) bytes() []byte {
	value, isCopy := r.bytea()
	if isCopy {
		return value
	}
	return bytes.Clone(value)
}

// bytea reads a bytea, which is a copy in the text format only.
func (r *rawRow) bytea() (value []byte, isCopy bool) {
	value, isBinary := r.next()
	if value == nil || isBinary {
		return value, false
	}
	decoded, err := hex.DecodeString(string(bytes.TrimPrefix(value, []byte(`\x`))))
	if err != nil {
		r.fail(fmt.Errorf("a bytea is not hexadecimal: the session's bytea_output must be hex: %w", err))
	}
	return decoded, true
}
