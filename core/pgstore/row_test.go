package pgstore

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rowOf has these columns in one format.
func rowOf(format int16, values ...[]byte) *rawRow {
	fields := make([]pgconn.FieldDescription, len(values))
	for i := range fields {
		fields[i].Format = format
	}
	return &rawRow{fields: fields, values: values}
}

// Rows are read alike in both formats; the conformance tests read whole records so.
func TestRowsInBothFormats(t *testing.T) {
	t.Parallel()
	binary := rowOf(pgx.BinaryFormatCode, []byte("\xff\xfe"), []byte("\x80\x00\x00\x00\x00\x00\x00\x00"), []byte("text"), []byte("\x01[]"), []byte("\x00\xff"), []byte("0123456789abcdef"),
		[]byte("\x00\x00\x00\x00\x00\x0f\x42\x41"+"\x7f\xff\xff\xff\xff\xff\xff\xff"+"\x80\x00\x00\x00\x00\x00\x00\x00"),
		[]byte("\xff\xff\xff\xff\xff\xff\xff\xfesteps"))
	text := rowOf(pgx.TextFormatCode, []byte("-2"), []byte("-9223372036854775808"), []byte("text"), []byte("[]"), []byte(`\x00ff`), []byte("30313233-3435-3637-3839-616263646566"),
		[]byte(`\x00000000000f4241`+`7fffffffffffffff`+`8000000000000000`), []byte(`\xfffffffffffffffe7374657073`))
	for name, row := range map[string]*rawRow{"binary": binary, "text": text} {
		small, large, word, list, body, id := row.integer(), row.integer(), row.text(), row.json(), row.bytes(), row.uuid()
		moment, late, early := time.Time{}, time.Now(), time.Now()
		row.times(&moment, &late, &early)
		attempt, steps := row.won()
		if moment != time.Date(2000, 1, 1, 0, 0, 1, 1000, time.UTC) || !late.IsZero() || !early.IsZero() || *attempt != -2 || steps != "steps" {
			t.Errorf("%s: %s, %s, %s, %d, %q", name, moment, late, early, *attempt, steps)
		}
		if small != -2 || large != math.MinInt64 || word != "text" || string(list) != "[]" || string(body) != "\x00\xff" ||
			string(id[:]) != "0123456789abcdef" || row.end() != nil {
			t.Errorf("%s: %d, %d, %q, %q, %q, %x with error %v", name, small, large, word, list, body, id, row.end())
		}
	}
}

func TestNullIsNil(t *testing.T) {
	t.Parallel()
	for _, format := range []int16{pgx.BinaryFormatCode, pgx.TextFormatCode} {
		row := rowOf(format, nil, nil, nil, nil, nil, nil, nil, nil)
		attempt, steps := row.won()
		var moment time.Time
		if row.times(&moment); attempt != nil || steps != "" || !moment.IsZero() {
			t.Errorf("null is read as %v, %q, %s", attempt, steps, moment)
		}
		if n, zero, word, list, body, id := row.optional(), row.integer(), row.text(), row.json(), row.bytes(), row.uuid(); n != nil ||
			zero != 0 || word != "" || list != nil || body != nil || id != [16]byte{} || row.end() != nil {
			t.Errorf("null is read as %v, %d, %q, %q, %q, %x with error %v", n, zero, word, list, body, id, row.end())
		}
	}
}

// A copy is kept, because the connection reads its next reply into the same memory.
func TestWhatIsReadIsACopy(t *testing.T) {
	t.Parallel()
	list, body := []byte("[]"), []byte("body")
	row := rowOf(pgx.BinaryFormatCode, list, body)
	gotList, gotBody := row.json(), row.bytes()
	clear(list)
	clear(body)
	if string(gotList) != "[]" || string(gotBody) != "body" {
		t.Errorf("the values have become %q and %q", gotList, gotBody)
	}
}

func TestRowsThatAreOtherwise(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		row      *rawRow
		read     func(*rawRow)
		mentions string
	}{
		{"a column too few", rowOf(pgx.TextFormatCode), func(r *rawRow) { r.text() }, "other columns"},
		{"a column too many", rowOf(pgx.TextFormatCode, []byte("1")), func(*rawRow) {}, "other columns"},
		{"no number", rowOf(pgx.TextFormatCode, []byte("x")), func(r *rawRow) { r.integer() }, `"x"`},
		{"an integer of another size", rowOf(pgx.BinaryFormatCode, []byte("123")), func(r *rawRow) { r.integer() }, "3 bytes, want 2 or 8"},
		{"no hexadecimal", rowOf(pgx.TextFormatCode, []byte(`\000`)), func(r *rawRow) { r.bytes() }, "bytea_output"},
		{"a short time", rowOf(pgx.BinaryFormatCode, []byte("123")), func(r *rawRow) { r.times(new(time.Time)) }, "3 bytes, want 8"},
		{"a time too many", rowOf(pgx.BinaryFormatCode, []byte("0123456701234567")), func(r *rawRow) { r.times(new(time.Time)) }, "16 bytes, want 8"},
		{"a short attempt", rowOf(pgx.BinaryFormatCode, []byte("123")), func(r *rawRow) { r.won() }, "3 bytes, want at least 8"},
		{"a short uuid", rowOf(pgx.BinaryFormatCode, []byte("123")), func(r *rawRow) { r.uuid() }, "3 bytes, want 16"},
		{"no uuid", rowOf(pgx.TextFormatCode, []byte("30313233-3435-3637-3839-61626364656g")), func(r *rawRow) { r.uuid() }, "want 16"},
		{"two of them", rowOf(pgx.TextFormatCode, []byte("x")), func(r *rawRow) { r.integer(); r.text() }, `"x"`},
	}
	for _, test := range tests {
		test.read(test.row)
		if err := test.row.end(); err == nil || !strings.Contains(err.Error(), test.mentions) {
			t.Errorf("%s: the error is %v, want it to mention %s", test.name, err, test.mentions)
		}
	}
	if err := rowOf(pgx.TextFormatCode, nil).end(); !errors.Is(err, errColumns) {
		t.Errorf("the error is %v, want errColumns", err)
	}
}
