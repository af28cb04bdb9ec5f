package memstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
	"unsafe"

	"github.com/oncekey/oncekey/core/storage"
)

// entry begins with a finished record or a tombstone as an archive holds it:
//
//	 0  position  in the archive's deadlines, or gone
//	 4  expires   nanoseconds since the store's start
//	12  identity
//	44  state
//	45  form      which of key and fingerprint are text, and which optional fields there are
//	46  run       milliseconds from the claim to the completion
//	50  attempt, status, number of fields, lengths of header, sketch and body, retain;
//	    remember, key, fingerprint, digest, origin, header, token, sketch, body
//
// Remember, digest and origin are optional. A tombstone has only attempt, status, key,
// fingerprint and digest after its form.
//
// The fields that a replay needs come first and close together, because an entry is
// in no processor's cache. After the entry is added, only the position changes, and
// only under the shard's lock. The other bytes may be read at any time.
type entry []byte

const (
	atExpires  = 4
	atIdentity = 12
	atState    = 44
	atForm     = 45
	preamble   = 46
	runBytes   = 4

	spelledKey         = 1
	spelledFingerprint = 2
	digested           = 4
	remembered         = 8
	sourced            = 16

	// gone is the position of a removed record.
	gone = 1<<32 - 1

	fingerprintPrefix = "sha256:"
	fingerprintLength = len(fingerprintPrefix) + 2*sha256.Size
)

func (e entry) position() uint32 { return binary.LittleEndian.Uint32(e) }

func (e entry) setPosition(position uint32) { binary.LittleEndian.PutUint32(e, position) }

func (e entry) expires() time.Duration {
	return time.Duration(binary.LittleEndian.Uint64(e[atExpires:]))
}

func (e entry) setExpires(expires time.Duration) {
	binary.LittleEndian.PutUint64(e[atExpires:], uint64(expires))
}

// setRun sets how long a finished record's run has lasted. A number of milliseconds
// in 4 bytes is enough for 49 days.
func (e entry) setRun(run time.Duration) {
	if e.state() != storage.Expired {
		binary.LittleEndian.PutUint32(e[preamble:], uint32(min(milliseconds(run), math.MaxUint32)))
	}
}

// milliseconds rounds down, and is zero for a negative duration.
func milliseconds(d time.Duration) uint64 { return uint64(max(0, d.Milliseconds())) }

func (e entry) identity() *identity { return (*identity)(e[atIdentity:]) }

func (e entry) state() storage.State { return storage.State(e[atState]) }

func (e entry) has(form byte) bool { return e[atForm]&form != 0 }

// parts are the decoded fields of an entry. The slices point into the entry.
type parts struct {
	attempt     uint64
	status      int
	fields      int
	run         time.Duration
	retain      time.Duration
	remember    time.Duration
	key         []byte
	fingerprint []byte
	digest      storage.Digest
	origin      []byte // see appendOrigin
	header      []byte // for each field: its Op, then name and value after their lengths
	token       []byte
	sketch      []byte
	body        []byte
	size        int
}

func (e entry) parts() (p parts) {
	r := reader{e, preamble}
	finished := e.state() != storage.Expired
	if finished {
		p.run = time.Duration(binary.LittleEndian.Uint32(r.take(runBytes))) * time.Millisecond
	}
	p.attempt, p.status = r.uvarint(), r.varint()
	var header, sketch, body int
	if finished {
		p.fields, header, sketch, body = r.length(), r.length(), r.length(), r.length()
		p.retain = time.Duration(r.uvarint()) * time.Millisecond
	}
	if e.has(remembered) {
		p.remember = time.Duration(r.uvarint())
	}
	if e.has(spelledKey) {
		p.key = r.take(r.length())
	}
	fingerprint := sha256.Size
	if e.has(spelledFingerprint) {
		fingerprint = r.length()
	}
	p.fingerprint = r.take(fingerprint)
	if e.has(digested) {
		p.digest = storage.Digest(r.take(len(storage.Digest{})))
	}
	if e.has(sourced) {
		p.origin = r.take(r.length())
	}
	if finished {
		p.header, p.token = r.take(header), r.take(len(storage.Token{}))
		p.sketch, p.body = r.take(sketch), r.take(body)
	}
	p.size = r.at
	return p
}

// isOf reports whether the lease's own attempt completed the entry. A tombstone is of
// no lease.
func (e entry) isOf(l *storage.Lease) bool {
	p := e.parts()
	return bytes.Equal(p.token, l.Token[:]) && p.attempt == l.Attempt
}

func (e entry) key() string {
	if !e.has(spelledKey) {
		return e.identity().spell()
	}
	return string(e.parts().key)
}

// cost is the size that MaxBytes counts for the record.
func (e entry) cost(p *parts) int64 {
	sum := recordOverhead + 2*len(identity{}) + fingerprintLength + p.fields*fieldOverhead + len(p.sketch) + len(p.body)
	if e.has(spelledKey) {
		sum += len(p.key) - 2*len(identity{})
	}
	if e.has(spelledFingerprint) {
		sum += len(p.fingerprint) - fingerprintLength
	}
	if len(p.origin) > 0 {
		o := originOf(p.origin)
		sum += originTexts(&o)
	}
	for r := (reader{p.header, 0}); r.at < len(p.header); {
		_, name, value := r.field()
		sum += len(name) + len(value)
	}
	return int64(sum)
}

// record is the whole record. Its strings and slices point into the entry, except a
// fingerprint equal to the expected one: then the caller's string is used.
func (e entry) record(expected string, epoch time.Time) *storage.Record {
	p := e.parts()
	r := e.response(&p, epoch)
	r.Fingerprint = e.fingerprint(&p, expected)
	return r
}

// response is the record without its fingerprint.
func (e entry) response(p *parts, epoch time.Time) *storage.Record {
	const few = 2 // number of fields without an allocation of their own
	made := new(struct {
		record storage.Record
		fields [few]storage.Field
	})
	r := &made.record
	e.fill(r, p, epoch)
	if len(p.sketch) > 0 {
		r.Sketch = p.sketch
	}
	if len(p.body) > 0 {
		r.Body = p.body
	}
	switch {
	case p.fields > few:
		r.Header = make(storage.Header, p.fields)
	case p.fields > 0:
		r.Header = made.fields[:p.fields:p.fields]
	}
	rest := reader{p.header, 0}
	for i := range r.Header {
		op, name, value := rest.field()
		r.Header[i] = storage.Field{Op: op, Name: text(name), Value: text(value)}
	}
	return r
}

// text returns the bytes of an entry as a string, without a copy. The bytes never
// change: entries are only appended to a chunk, and an emptied chunk is not used
// again.
func text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // the bytes never change
}

// summary is the record without header and body.
func (e entry) summary(epoch time.Time) *storage.Record {
	p, r := e.parts(), new(storage.Record)
	e.fill(r, &p, epoch)
	r.Fingerprint = e.fingerprint(&p, "")
	return r
}

// fill sets the fields of a summary but its fingerprint. epoch is the wall time of the
// store's start.
func (e entry) fill(r *storage.Record, p *parts, epoch time.Time) {
	r.State, r.Attempt, r.Status, r.Digest = e.state(), p.attempt, p.status, p.digest
	r.Expires = epoch.Add(e.expires())
	if r.State != storage.Expired {
		r.Finished = r.Expires.Add(-p.retain)
		r.Created = r.Finished.Add(-p.run)
	}
	if len(p.origin) > 0 {
		r.Origin = originOf(p.origin)
	}
}

// fingerprint is the fingerprint as text, and the expected string if both are equal.
func (e entry) fingerprint(p *parts, expected string) string {
	if e.has(spelledFingerprint) {
		if string(p.fingerprint) != expected {
			return string(p.fingerprint)
		}
	} else if kept := (*[sha256.Size]byte)(p.fingerprint); !isFingerprint(expected, kept) {
		return spellFingerprint(kept)
	}
	return expected
}

// reader decodes an entry from its start.
type reader struct {
	bytes []byte
	at    int
}

func (r *reader) uvarint() uint64 {
	if value := r.bytes[r.at]; value < 0x80 { // nearly all values
		r.at++
		return uint64(value)
	}
	value, size := binary.Uvarint(r.bytes[r.at:])
	r.at += size
	return value
}

func (r *reader) varint() int {
	value, size := binary.Varint(r.bytes[r.at:])
	r.at += size
	return int(value)
}

func (r *reader) length() int { return int(r.uvarint()) }

// take returns the next n bytes. The capacity ends with them, so appending copies.
func (r *reader) take(n int) []byte {
	r.at += n
	return r.bytes[r.at-n : r.at : r.at]
}

// field reads one field of a header.
func (r *reader) field() (op storage.FieldOp, name, value []byte) {
	op = storage.FieldOp(r.take(1)[0])
	name = r.take(r.length())
	return op, name, r.take(r.length())
}
