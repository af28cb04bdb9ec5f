package memstore

import (
	"bytes"
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
//	46  run       milliseconds from the claim to the completion, not in a tombstone
//
// The fields of fields.go follow. After the entry is added, only the position changes, and
// only under the shard's lock. The other bytes may be read at any time.
type entry []byte

const (
	atExpires  = 4
	atIdentity = 12
	atState    = 44
	atForm     = 45
	preamble   = 46
	runBytes   = 4

	// gone is the position of a removed record.
	gone = 1<<32 - 1
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

// text returns the text after its length, without a copy. The bytes never change: entries
// are only appended to a chunk, and an emptied chunk is not used again.
func (r *reader) text() string {
	b := r.take(r.length())
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // the bytes never change
}

// appendText writes a text after its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendOrigin writes an origin with its length: each text after its own length.
func appendOrigin(b []byte, o *storage.Origin) []byte {
	texts := [...]string{o.Route, o.Holder, o.KeyHash, o.Trace, o.Program}
	size := 0
	for _, text := range texts {
		size += uvarintSize(len(text)) + len(text)
	}
	b = binary.AppendUvarint(b, uint64(size))
	for _, text := range texts {
		b = appendText(b, text)
	}
	return b
}

// originOf reads the texts that appendOrigin wrote. They point into the entry.
func originOf(b []byte) storage.Origin {
	r := reader{b, 0}
	return storage.Origin{Route: r.text(), Holder: r.text(), KeyHash: r.text(), Trace: r.text(), Program: r.text()}
}
