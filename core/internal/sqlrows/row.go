package sqlrows

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// version of a row. A reader refuses any other version.
	version = 1

	// States of a record.
	inProgress = "in_progress"
	released   = "released"
	// States that only a row has: forgotten keeps the attempt number of a key that was
	// released without steps, and gone is a tombstone. For scoped see Scopes.
	forgotten = "forgotten"
	gone      = "gone"

	minStatus, maxStatus = 100, 999
)

// Row is the row of a key. A number is zero for null, and bytes are nil for null.
type Row struct {
	now         int64 // by the database's clock, in microseconds, as all times
	version     int64
	state       string
	attempt     int64
	tookOver    int64
	revision    int64
	leaseUntil  int64
	retainUntil int64
	expiresAt   int64
	claimedAt   int64
	settledAt   int64
	status      int64

	token, fingerprint, digest []byte
	header, origin             string

	content, sketch []byte // content is the body, or the steps of a run without an outcome
	steps           []byte // unless the row was read as a text
	text            string // most columns, unless they were read as they are

	key string // of a list
}

// Columns are the destinations of the columns that a statement reads. Call Parse after the
// scan.
func (r *Row) Columns(of Name, f *Form) []any {
	switch of {
	case Overdue:
		return []any{&r.key}
	case List:
		return append([]any{&r.key}, r.head(f.AsText)...)
	case Read, FirstOrRead:
		return r.whole(f.AsText)
	default:
		return r.head(f.AsText)
	}
}

// Text returns the row whose columns are text, of a Form that reads rows so.
func Text(key, text string, content, sketch []byte) *Row {
	return &Row{key: key, text: text, content: content, sketch: sketch}
}

// IsNew reports whether the row has a key only, which a statement of several records has claimed.
func (r *Row) IsNew() bool { return r.text == "" }

// Key is the record's key, in a list.
func (r *Row) Key() string { return r.key }

// head are the destinations of {head}.
func (r *Row) head(asText bool) []any {
	if asText {
		return []any{&r.text}
	}
	columns := make([]any, 0, rowColumns)
	for _, n := range r.numbers() {
		columns = append(columns, (*nullNumber)(n))
	}
	return append(columns, &r.state, &r.token, &r.fingerprint, &r.digest, (*nullText)(&r.origin))
}

// whole are the destinations of {whole}.
func (r *Row) whole(asText bool) []any {
	if asText {
		return []any{&r.text, &r.content, &r.sketch}
	}
	return append(r.head(asText), (*nullText)(&r.header), &r.steps, &r.content, &r.sketch)
}

// rowColumns is the number of columns of {whole}.
const rowColumns = 20

// numbers are the numbers of a row in the order in which they are read.
func (r *Row) numbers() [11]*int64 {
	return [...]*int64{
		&r.now, &r.version, &r.attempt, &r.tookOver, &r.revision, &r.leaseUntil, &r.retainUntil, &r.expiresAt, &r.claimedAt, &r.settledAt,
		&r.status,
	}
}

// nullNumber scans a number, of which null is zero. database/sql would print and parse it.
type nullNumber int64

// Scan implements [sql.Scanner].
func (n *nullNumber) Scan(value any) (err error) {
	switch value := value.(type) {
	case nil:
	case int64:
		*n = nullNumber(value)
	case []byte: // of a driver that leaves texts as they are
		var number int64
		number, err = strconv.ParseInt(string(value), 10, 64)
		*n = nullNumber(number)
	default:
		err = fmt.Errorf("the driver returned a %T in place of an int64", value)
	}
	return err
}

// nullText scans a text, of which null is the empty one.
type nullText string

// Scan implements [sql.Scanner].
func (t *nullText) Scan(value any) error {
	switch value := value.(type) {
	case nil:
	case []byte:
		*t = nullText(value)
	case string:
		*t = nullText(value)
	default:
		return fmt.Errorf("the driver returned a %T in place of a text", value)
	}
	return nil
}

// Parse reads the text, or picks the content.
func (r *Row) Parse() error {
	if r.text == "" {
		if r.isUnsettled() {
			r.content = r.steps
		}
		return nil
	}
	rest, lines, _ := strings.Cut(r.text, "\n")
	r.header, r.origin, _ = strings.Cut(lines, "\n")
	for _, target := range r.numbers() {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return records.Corrupt("its numbers are %s", records.Excerpt(r.text))
		}
		*target = n
	}
	r.state, rest, _ = strings.Cut(rest, " ")
	for _, target := range [...]*[]byte{&r.token, &r.fingerprint, &r.digest} {
		var word string
		var err error
		word, rest, _ = strings.Cut(rest, " ")
		if *target, err = hex.DecodeString(word); err != nil {
			return records.Corrupt("its words are %s", records.Excerpt(r.text))
		}
	}
	return nil
}

// expired: the row counts as missing.
func (r *Row) expired() bool { return r.expiresAt <= r.now }

// over: the row, not expired, counts as a tombstone, swept or not.
func (r *Row) over() bool {
	return r.state == gone || r.retainUntil != 0 && r.retainUntil <= r.now
}

// isOf: the row, not expired, belongs to the attempt and is no tombstone.
func (r *Row) isOf(l *storage.Lease) bool {
	return r.version == version && !r.over() && bytes.Equal(r.token, l.Token[:]) && r.attempt == int64(l.Attempt)
}

// isUnsettled: the row is of a state that an attempt may still settle.
func (r *Row) isUnsettled() bool {
	return r.state == inProgress || r.state == released || r.state == forgotten
}

// repeats: the claim's request is the one that made the row.
func (r *Row) repeats(c *storage.Claim) bool {
	var digest storage.Digest
	copy(digest[:], r.digest)
	return c.Repeats(unpackFingerprint(r.fingerprint), digest)
}

// Decode returns the record of a row.
func (r *Row) Decode() (*storage.Record, error) {
	if r.version != version {
		return nil, records.Corrupt("its version is %d, want %d", r.version, version)
	}
	if r.attempt < 1 {
		return nil, records.Corrupt("its attempt number is %d", r.attempt)
	}
	record := &storage.Record{Fingerprint: unpackFingerprint(r.fingerprint), Attempt: uint64(r.attempt), Expires: timeOf(r.expiresAt)}
	if len(r.digest) != 0 && len(r.digest) != len(record.Digest) {
		return nil, records.Corrupt("its digest has %d bytes, want %d", len(r.digest), len(record.Digest))
	}
	copy(record.Digest[:], r.digest)
	if r.over() {
		record.State = storage.Expired
		if r.status == 0 {
			return record, nil
		}
		return record, r.readStatus(record)
	}
	return record, r.readState(record)
}

// timeOf returns a time from 1970 to 9999, as JSON has it: a hand may have made a row last for ever.
func timeOf(micro int64) time.Time {
	const last = 253402300799999999
	return time.UnixMicro(min(max(micro, 0), last)).UTC()
}

// readState reads the columns that a tombstone does not have.
func (r *Row) readState(record *storage.Record) error {
	var known bool
	if record.State, known = storage.ParseState(r.state); !known || record.State == storage.Expired {
		return records.Corrupt("its state is %s", records.Excerpt(r.state))
	}
	record.Created = timeOf(r.claimedAt)
	if r.retainUntil != 0 {
		record.Expires = timeOf(r.retainUntil)
	}
	if record.Origin, known = records.ParseOrigin(r.origin); !known {
		return records.Corrupt("its origin is %s", records.Excerpt(r.origin))
	}
	switch record.State {
	case storage.InProgress:
		if r.leaseUntil == 0 {
			return records.Corrupt("it is in progress, and its lease has no end")
		}
		left := r.leaseUntil - r.now
		// MySQL's time is that of the statement's begin, and the row may be of a claim after
		// that. A clock that was set back leaves claims of the future, which say nothing.
		if whole := r.leaseUntil - r.claimedAt; whole > 0 {
			left = min(left, whole)
		}
		record.LeaseLeft, record.Steps = time.Duration(left)*time.Microsecond, string(r.content)
		return nil
	case storage.Released:
		record.Steps = string(r.content)
		return nil
	default:
		return r.readResult(record)
	}
}

// readResult reads the columns of a finished record.
func (r *Row) readResult(record *storage.Record) (err error) {
	if r.settledAt != 0 {
		record.Finished = timeOf(r.settledAt)
	}
	record.Body, record.Sketch = r.content, r.sketch
	if record.Header, err = decodeHeader(r.header); err != nil {
		return err
	}
	return r.readStatus(record)
}

func (r *Row) readStatus(record *storage.Record) error {
	if r.status < minStatus || r.status > maxStatus {
		return records.Corrupt("its status is %d, want one from %d to %d", r.status, minStatus, maxStatus)
	}
	record.Status = int(r.status)
	return nil
}
