package pgstore

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// version of a plain row. A row with steps, or with a tombstone, has
	// versionWithMemory. A reader refuses any other version.
	version           = 1
	versionWithMemory = 2

	// gone is the state of a tombstone.
	gone = "gone"
	// hashPrefix is what the sweeper cuts off a fingerprint, see isHash.
	hashPrefix = "sha256:"

	minStatus, maxStatus = 100, 999
)

// storedRecord is the row of a record.
type storedRecord struct {
	now         time.Time // by the server's clock
	version     int64
	state       string
	attempt     int64
	fingerprint string
	digest      storage.Digest
	leaseUntil  time.Time
	status      *int64
	header      []byte
	body        []byte
	sketch      []byte
	steps       []byte
	origin      string
	claimedAt   time.Time
	settledAt   time.Time
	expiresAt   time.Time // the end of the tombstone, if there is one
	retainUntil time.Time // zero for a plain row, and for a swept tombstone
}

// read reads the columns of wholeRecord or withoutResponse.
func (r *storedRecord) read(row *rawRow) {
	row.times(&r.now, &r.leaseUntil, &r.claimedAt, &r.settledAt, &r.expiresAt, &r.retainUntil)
	r.version, r.state, r.attempt, r.fingerprint = row.integer(), row.text(), row.integer(), row.text()
	r.digest, r.origin = row.uuid(), row.text()
	r.status, r.header, r.body, r.sketch, r.steps = row.optional(), row.json(), row.bytes(), row.bytes(), row.bytes()
	if r.version != versionWithMemory {
		r.retainUntil, r.steps = time.Time{}, nil // left behind by an older program
	}
}

// ScanRow implements pgx.RowScanner.
func (r *storedRecord) ScanRow(rows pgx.Rows) error {
	row := newRawRow(rows)
	r.read(row)
	return row.end()
}

func (r *storedRecord) decode() (*storage.Record, error) {
	if r.version != version && r.version != versionWithMemory {
		return nil, records.Corrupt("its version is %d, want %d or %d", r.version, version, versionWithMemory)
	}
	if r.attempt < 1 {
		return nil, records.Corrupt("its attempt number is %d", r.attempt)
	}
	if r.state == gone || !r.retainUntil.IsZero() && !r.now.Before(r.retainUntil) {
		return r.tombstone()
	}
	state, known := storage.ParseState(r.state)
	if !known || state == storage.Expired {
		return nil, records.Corrupt("its state is %s", records.Excerpt(r.state))
	}
	record := &storage.Record{
		State: state, Fingerprint: r.fingerprint, Digest: r.digest, Attempt: uint64(r.attempt),
		Created: r.claimedAt, Finished: r.settledAt, Expires: r.expiresAt,
	}
	if !r.retainUntil.IsZero() {
		record.Expires = r.retainUntil
	}
	var readable bool
	if record.Origin, readable = records.ParseOrigin(r.origin); !readable {
		return nil, records.Corrupt("its origin is %s", records.Excerpt(r.origin))
	}
	return record, r.readState(record)
}

// readState sets the fields that depend on the state.
func (r *storedRecord) readState(record *storage.Record) error {
	switch record.State {
	case storage.InProgress:
		return r.readRun(record)
	case storage.Released:
		record.Steps = string(r.steps)
		return nil
	default:
		return r.readResponse(record)
	}
}

// tombstone returns what is left of a remembered record. Its response may still be in
// the row, until a sweep.
func (r *storedRecord) tombstone() (*storage.Record, error) {
	record := &storage.Record{
		State: storage.Expired, Fingerprint: r.fingerprint, Digest: r.digest, Attempt: uint64(r.attempt), Expires: r.expiresAt,
	}
	if r.state == gone && r.body != nil {
		record.Fingerprint = hashPrefix + hex.EncodeToString(r.body)
	}
	if r.status == nil {
		return record, nil
	}
	return record, r.readStatus(record)
}

func (r *storedRecord) readRun(record *storage.Record) error {
	if r.leaseUntil.IsZero() {
		return records.Corrupt("it is in progress, and its lease has no end")
	}
	record.LeaseLeft, record.Steps = r.leaseUntil.Sub(r.now), string(r.steps)
	return nil
}

func (r *storedRecord) readResponse(record *storage.Record) error {
	if err := r.readStatus(record); err != nil {
		return err
	}
	record.Body, record.Sketch = r.body, r.sketch
	var err error
	record.Header, err = decodeHeader(r.header)
	return err
}

func (r *storedRecord) readStatus(record *storage.Record) error {
	if r.status == nil || *r.status < minStatus || *r.status > maxStatus {
		return records.Corrupt("its status is %s", describe(r.status))
	}
	record.Status = int(*r.status)
	return nil
}

func decodeHeader(encoded []byte) (storage.Header, error) {
	if encoded == nil {
		return nil, nil
	}
	header, err := records.ParseHeader(string(encoded))
	if err != nil {
		return nil, records.Corrupt("its %v", err)
	}
	return header, nil
}

func describe(status *int64) string {
	if status == nil {
		return "missing"
	}
	return fmt.Sprint(*status)
}

// The types of the statements' arguments are explicit, because some query modes of a
// pool do not ask the server for the types.

func uuid(token storage.Token) pgtype.UUID { return pgtype.UUID{Bytes: token, Valid: true} }

// digest returns null for the zero digest, which means no digest.
func digest(d storage.Digest) pgtype.UUID { return pgtype.UUID{Bytes: d, Valid: d != storage.Digest{}} }

// interval rounds up to a microsecond, so that a record is kept for at least d.
func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: int64((d + time.Microsecond - 1) / time.Microsecond), Valid: true}
}

// kept is the time for which a row is kept, with its tombstone.
func kept(retain, remember time.Duration) pgtype.Interval {
	whole := interval(retain)
	whole.Microseconds += interval(remember).Microseconds
	return whole
}

// retained returns null for a row without a tombstone.
func retained(retain, remember time.Duration) pgtype.Interval {
	if remember <= 0 {
		return pgtype.Interval{}
	}
	return interval(retain)
}

// bytesOf returns null for the empty text.
func bytesOf(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// nullable returns the text, or null for nil.
func nullable(text []byte) pgtype.Text { return pgtype.Text{String: string(text), Valid: text != nil} }
