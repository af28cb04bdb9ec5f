package pgstore

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekey/oncekey/core"
)

const (
	// version of a row, as this package writes it. A reader refuses any other.
	version = 1
	// inBase64 marks a header field whose name and value stand in base64.
	inBase64 = "base64"

	minStatus, maxStatus = 100, 999
)

// storedRecord is a row as it was read.
type storedRecord struct {
	version     int16
	state       string
	attempt     int64
	fingerprint string
	leaseLeft   *int64 // in microseconds
	status      *int16
	header      []byte
	body        []byte
}

// columns are where recordColumns go.
func (r *storedRecord) columns() []any {
	return []any{&r.version, &r.state, &r.attempt, &r.fingerprint, &r.leaseLeft, &r.status, &r.header, &r.body}
}

func (r *storedRecord) decode() (*core.Record, error) {
	if r.version != version {
		return nil, corrupt("its version is %d, this is version %d", r.version, version)
	}
	state, known := core.ParseState(r.state)
	if !known {
		return nil, corrupt("its state is %s", excerpt(r.state))
	}
	if r.attempt < 1 {
		return nil, corrupt("its attempt number is %d", r.attempt)
	}
	record := &core.Record{State: state, Fingerprint: r.fingerprint, Attempt: uint64(r.attempt)}
	if state == core.InProgress {
		if r.leaseLeft == nil {
			return nil, corrupt("it is in progress, and its lease has no end")
		}
		record.LeaseLeft = time.Duration(*r.leaseLeft) * time.Microsecond
		return record, nil
	}
	if r.status == nil || *r.status < minStatus || *r.status > maxStatus {
		return nil, corrupt("its status is %s", describe(r.status))
	}
	record.Status, record.Body = int(*r.status), r.body
	var err error
	record.Header, err = decodeHeader(r.header)
	return record, err
}

var operations = [...]string{core.Set: "set", core.Add: "add", core.Delete: "delete"}

// encodeHeader returns nil for no fields.
func encodeHeader(header core.Header) []byte {
	if len(header) == 0 {
		return nil
	}
	fields := make([][]string, len(header))
	for i, field := range header {
		fields[i] = encodeField(field)
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic("pgstore: " + err.Error()) // strings always encode
	}
	return encoded
}

func encodeField(f core.Field) []string {
	operation := operations[f.Op]
	if isPlain(f.Name) && isPlain(f.Value) {
		return []string{operation, f.Name, f.Value}
	}
	encoding := base64.StdEncoding
	return []string{operation, encoding.EncodeToString([]byte(f.Name)), encoding.EncodeToString([]byte(f.Value)), inBase64}
}

// isPlain reports whether the text goes through jsonb unharmed, which knows no NUL
// and nothing beyond the database's own encoding.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func decodeHeader(encoded []byte) (core.Header, error) {
	if encoded == nil {
		return nil, nil
	}
	var fields [][]string
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, corrupt("its header is %s", excerpt(string(encoded)))
	}
	header := make(core.Header, len(fields))
	for i, words := range fields {
		field, readable := decodeField(words)
		if !readable {
			return nil, corrupt("its header field %d is %s", i, excerpt(fmt.Sprint(words)))
		}
		header[i] = field
	}
	return header, nil
}

func decodeField(words []string) (core.Field, bool) {
	const plain, encoded = 3, 4
	if len(words) != plain && (len(words) != encoded || words[plain] != inBase64) {
		return core.Field{}, false
	}
	field := core.Field{Name: words[1], Value: words[2]}
	if len(words) == encoded {
		name, nameErr := base64.StdEncoding.DecodeString(words[1])
		value, valueErr := base64.StdEncoding.DecodeString(words[2])
		if errors.Join(nameErr, valueErr) != nil {
			return core.Field{}, false
		}
		field.Name, field.Value = string(name), string(value)
	}
	for operation, name := range operations {
		if name == words[0] {
			field.Op = core.FieldOp(operation)
			return field, true
		}
	}
	return core.Field{}, false
}

func corrupt(format string, details ...any) error {
	return fmt.Errorf("%w: %s", core.ErrCorruptRecord, fmt.Sprintf(format, details...))
}

func describe(status *int16) string {
	if status == nil {
		return "missing"
	}
	return fmt.Sprint(*status)
}

// excerpt quotes the beginning of a string that may be long, and may hold
// anything.
func excerpt(s string) string {
	const enough = 80
	if len(s) > enough {
		return fmt.Sprintf("%q...", s[:enough])
	}
	return fmt.Sprintf("%q", s)
}

// The types of the statements' arguments, said aloud for the sake of pools whose
// query mode does not ask the server for them.

func uuid(token core.Token) pgtype.UUID { return pgtype.UUID{Bytes: token, Valid: true} }

// interval rounds up to a microsecond: what was asked for is the least that is kept.
func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: int64((d + time.Microsecond - 1) / time.Microsecond), Valid: true}
}

// nullable is the text, or null for nil.
func nullable(text []byte) pgtype.Text { return pgtype.Text{String: string(text), Valid: text != nil} }
