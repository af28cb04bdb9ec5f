package redisstore

import (
	"bytes"
	"encoding/base64"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// version of the line's format. A reader refuses a version that it does not know.
	version = 1
	// version2 is the version of a claim with steps or with a Remember, of a released
	// record with steps, and of a response with a key of its own. Programs that know only
	// version 1 must refuse them: they would lose the steps, run an abandoned key that is
	// remembered, or list the response as a record.
	version2 = 2

	minStatus, maxStatus = 100, 999
)

// stored is a decoded value.
type stored struct {
	record   storage.Record
	token    storage.Token
	tookOver bool
	// forgotten: the key was released without steps. Only its attempt number and its
	// fingerprint are left, and the record has no state.
	forgotten bool
	// age is the time from the claim to the writing of the value.
	lease, retain, remember, age time.Duration
	// at is the line's.
	at string
	// apart: the response of the record has a key of its own. lost: it was not found
	// there.
	apart, lost bool
}

// afterLease is how much longer the key lives than its lease.
func (s *stored) afterLease() time.Duration { return s.remember + s.retain - s.lease }

func encodeClaim(l *storage.Lease, at time.Time) []byte {
	var head line
	head.begin(l, storage.InProgress.String(), at)
	head.Fingerprint, head.Digest, head.TookOver = l.Fingerprint, digest(l.Digest), l.TookOver
	head.LeaseMS, head.RetainMS, head.AgeMS = milliseconds(l.TTL), milliseconds(l.Retain), milliseconds(max(l.Age, 0))
	head.setOrigin(&l.Origin)
	if l.Steps != "" || l.Remember > 0 {
		head.Version, head.RememberMS = version2, milliseconds(l.Remember)
	}
	return encode(&head, l.Steps)
}

// encodeReleased keeps a released record, or only its attempt number if the lease has no
// steps.
func encodeReleased(l storage.Lease, at time.Time) []byte {
	var head line
	head.begin(&l, storage.Released.String(), at)
	head.Fingerprint = l.Fingerprint
	if l.Steps != "" {
		head.Version, head.Digest = version2, digest(l.Digest)
		head.RetainMS, head.AgeMS = milliseconds(l.Retain), milliseconds(max(l.Age, 0))
		head.setOrigin(&l.Origin)
	}
	return encode(&head, l.Steps)
}

func encodeResult(l storage.Lease, res storage.Result, at time.Time) []byte {
	var head line
	head.begin(&l, res.State.String(), at)
	head.Fingerprint, head.Digest, head.Status, head.Sketch = l.Fingerprint, digest(l.Digest), res.Status, res.Sketch
	head.RetainMS, head.AgeMS = milliseconds(res.Retain), milliseconds(max(l.Age, 0))
	if res.Remember > 0 {
		head.Version = version2
	}
	head.setOrigin(&l.Origin)
	if res.State == storage.Unreplayable {
		return encode(&head, "")
	}
	head.Headers = records.HeaderWords(res.Header, utf8.ValidString)
	return encode(&head, res.Body)
}

// begin sets the members that every line has.
func (l *line) begin(of *storage.Lease, state string, at time.Time) {
	l.Token, l.State, l.Version, l.Attempt = of.Token.String(), state, version, of.Attempt
	l.At = at.UTC().Format(time.RFC3339Nano)
}

func encode[Body string | []byte](head *line, body Body) []byte {
	head.Size = len(body)
	const usual = 400 // usual size of a line with a header or two
	room := usual + head.originSize() + base64.StdEncoding.EncodedLen(len(head.Sketch)) + len(body)
	return append(head.appendTo(make([]byte, 0, room)), body...)
}

// decode reads a value, which must not change later: the record's body is a part of the
// value, and its texts may be.
func decode(value []byte) (s stored, err error) {
	err = s.decode(value)
	return s, err
}

// decode sets the zero value to a decoded value.
func (s *stored) decode(value []byte) error {
	if isRemembered(value) {
		return s.decodeRemembered(value)
	}
	first, body, whole := bytes.Cut(value, []byte{'\n'})
	if !whole {
		return records.Corrupt("its first line does not end: %s", records.Excerpt(string(value)))
	}
	var head line
	if err := head.parse(textOfLine(first, len(body))); err != nil {
		return err
	}
	if head.Size != len(body) {
		return records.Corrupt("its body has %d bytes, not %d", len(body), head.Size)
	}
	return s.interpret(&head, body)
}

// textOfLine returns the bytes of a value's line. They are a copy only before a large body,
// which a program that keeps one of the record's texts would keep too. A copy for each
// record took 8 % of the memory of a replay.
func textOfLine(first []byte, bodySize int) string {
	const large = 4 << 10
	if bodySize > large {
		return string(first)
	}
	return unsafe.String(unsafe.SliceData(first), len(first)) //nolint:gosec // the value never changes
}

// decodeBeginning reads the members before headers and body from the beginning of a
// value. It returns false when the beginning is too short.
func decodeBeginning(start []byte) (s stored, enough bool, err error) {
	if isRemembered(start) {
		err := s.decodeRemembered(start)
		return s, len(start) < beginning, err
	}
	first, _, whole := strings.Cut(string(start), "\n")
	// Inside a string a quote would have a backslash, so this match is the member's
	// name.
	if before, _, found := strings.Cut(first, `,"headers":`); found {
		first, whole = before+"}", true
	}
	if !whole {
		return s, false, nil
	}
	var head line
	if err := head.parse(first); err != nil {
		return s, true, err
	}
	head.Sketch = nil // the sketch may have been cut off with the headers
	err = s.interpret(&head, nil)
	return s, true, err
}

func (l *line) parse(first string) error {
	err := l.read(first)
	if err == nil && l.Version != version && l.Version != version2 {
		err = records.Corrupt("its format is version %d, this is version %d", l.Version, version2)
	}
	return err
}

// interpret sets the zero value to the record of a line and a body.
func (s *stored) interpret(head *line, body []byte) (err error) {
	if s.token, err = storage.ParseToken(head.Token); err != nil {
		return records.Corrupt("its token is %s", records.Excerpt(head.Token))
	}
	if head.Attempt < 1 {
		return records.Corrupt("its attempt number is 0")
	}
	s.record.Fingerprint, s.record.Digest, s.record.Attempt = head.Fingerprint, storage.Digest(head.Digest), head.Attempt
	s.tookOver, s.at = head.TookOver, head.At
	s.retain, s.age = duration(head.RetainMS), duration(head.AgeMS)
	return s.read(head, body)
}

// read sets the fields that depend on the state.
func (s *stored) read(head *line, body []byte) error {
	state, known := storage.ParseState(head.State)
	if !known || state == storage.Expired {
		return records.Corrupt("its state is %s", records.Excerpt(head.State))
	}
	if state == storage.Released && head.Version == version {
		s.forgotten = true
		return nil
	}
	s.record.State, s.record.Origin = state, head.origin()
	switch state {
	case storage.InProgress:
		return s.readClaim(head, body)
	case storage.Released:
		s.record.Steps = string(body)
		return nil
	default:
		return s.readResult(head, body)
	}
}

func (s *stored) readClaim(head *line, body []byte) error {
	if s.lease = duration(head.LeaseMS); s.lease == 0 || s.retain < s.lease {
		return records.Corrupt("its lease is %d ms, and it is kept for %d ms", head.LeaseMS, head.RetainMS)
	}
	if head.Version == version2 {
		s.remember, s.record.Steps = duration(head.RememberMS), string(body)
	}
	if head.RememberMS < 0 || s.remember+s.retain < 0 || head.RememberMS > 0 && s.remember == 0 {
		return records.Corrupt("it is remembered for %d ms", head.RememberMS)
	}
	return nil
}

func (s *stored) readResult(head *line, body []byte) error {
	if head.Status < minStatus || head.Status > maxStatus {
		return records.Corrupt("its status is %d", head.Status)
	}
	s.record.Status, s.record.Body, s.record.Sketch = head.Status, body, head.Sketch
	header, err := records.HeaderOfWords(head.Headers)
	if err != nil {
		return records.Corrupt("its %v", err)
	}
	s.record.Header = header
	return nil
}
