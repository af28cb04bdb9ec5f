package redisstore

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
	"unsafe"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// maskSize is the size of the mask, which has a bit for each field.
	maskSize = 2
)

// codec writes or reads the parts of a value, in the order of stored.layout. A field that is
// zero takes no bytes, but a bit of the mask.
type codec struct {
	// rest are the bytes that are written, or those that are not read yet.
	rest    []byte
	reading bool
	// listing: only the beginning of the value was read.
	listing bool
	// cut: the bytes have ended too early. invalid: a number is larger than any that is written.
	cut, invalid bool
	// maskAt is where the mask is, when writing. bit is the next field's, or 0 in the head.
	maskAt    int
	mask, bit uint16
}

// fields begins the fields, which end before a body of some bytes. The fields of a record with
// a large body are copied, because a program may keep a text of the record for longer.
func (c *codec) fields(body uint64) {
	const large = 4 << 10
	c.bit = 1
	if !c.reading {
		c.maskAt = len(c.rest)
		c.rest = append(c.rest, make([]byte, maskSize)...)
		return
	}
	if !c.listing {
		if body > uint64(len(c.rest)) {
			c.cut, c.rest = true, nil
		}
		c.rest = c.rest[:uint64(len(c.rest))-min(body, uint64(len(c.rest)))]
		if body > large {
			c.rest = bytes.Clone(c.rest)
		}
	}
	if mask := c.take(maskSize); mask != nil {
		c.mask = binary.BigEndian.Uint16(mask)
	}
}

// end completes the value after its last field. When reading, it reports whether all bytes are
// of known fields. Those of a later version are skipped.
func (c *codec) end() bool {
	if c.reading {
		return len(c.rest) == 0 || c.mask >= c.bit
	}
	binary.BigEndian.PutUint16(c.rest[c.maskAt:], c.mask)
	return true
}

// has reports whether the next field has bytes. In the head, each part has.
func (c *codec) has(present bool) bool {
	if c.bit == 0 {
		return true
	}
	bit := c.bit
	c.bit <<= 1
	if c.reading {
		return c.mask&bit != 0
	}
	if present {
		c.mask |= bit
	}
	return present
}

// take returns the next bytes, or nil where there are fewer.
func (c *codec) take(size uint64) []byte {
	if size > uint64(len(c.rest)) {
		c.cut, c.rest = true, nil
		return nil
	}
	taken := c.rest[:size:size]
	c.rest = c.rest[size:]
	return taken
}

// raw writes or reads a number of bytes that is always the same.
func (c *codec) raw(b []byte) {
	if c.reading {
		copy(b, c.take(uint64(len(b))))
		return
	}
	c.rest = append(c.rest, b...)
}

func (c *codec) digest(d *storage.Digest) {
	if c.has(*d != storage.Digest{}) {
		c.raw(d[:])
	}
}

func (c *codec) attempt(n *uint64) {
	if !c.reading {
		c.rest = binary.BigEndian.AppendUint64(c.rest, *n)
	} else if b := c.take(8); b != nil {
		*n = binary.BigEndian.Uint64(b)
	}
}

func (c *codec) state(s *storage.State) {
	if !c.reading {
		c.rest = append(c.rest, byte(*s))
	} else if b := c.take(1); b != nil {
		*s = storage.State(b[0])
	}
}

func (c *codec) flag(set *bool) { *set = c.has(*set) }

// uvarint writes or reads seven bits a byte, the lowest first. The highest bit of a byte says that
// more follow.
func (c *codec) uvarint(n uint64) uint64 {
	if !c.reading {
		c.rest = binary.AppendUvarint(c.rest, n)
		return n
	}
	read, size := binary.Uvarint(c.rest)
	if size <= 0 {
		c.cut, c.invalid, c.rest = c.cut || size == 0, c.invalid || size < 0, nil
		return 0
	}
	c.rest = c.rest[size:]
	return read
}

func (c *codec) number(n *int) {
	if c.has(*n != 0) {
		read := c.uvarint(uint64(*n))
		c.invalid = c.invalid || read > math.MaxInt
		*n = int(read)
	}
}

// duration writes or reads milliseconds.
func (c *codec) duration(d *time.Duration) {
	if !c.has(*d > 0) {
		return
	}
	read := c.uvarint(uint64(milliseconds(*d)))
	c.invalid = c.invalid || read > uint64(math.MaxInt64/time.Millisecond)
	*d = time.Duration(read) * time.Millisecond
}

// time writes or reads nanoseconds since 1970.
func (c *codec) time(t *time.Time) {
	if !c.has(!t.IsZero()) {
		return
	}
	if n := c.uvarint(uint64(t.UnixNano())); c.reading {
		*t = time.Unix(0, int64(n)).UTC()
	}
}

// bytes writes or reads bytes with their number. The bytes that were read are a part of the value.
func (c *codec) bytes(b *[]byte) {
	if !c.has(len(*b) > 0) {
		return
	}
	if size := c.uvarint(uint64(len(*b))); c.reading {
		*b = c.take(size)
	} else {
		c.rest = append(c.rest, *b...)
	}
}

// words writes or reads texts with their lengths. The texts that were read are parts of the value,
// which never changes.
func (c *codec) words(texts ...*string) {
	for _, text := range texts {
		if size := c.uvarint(uint64(len(*text))); !c.reading {
			c.rest = append(c.rest, *text...)
		} else if b := c.take(size); len(b) > 0 {
			*text = unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // the value never changes
		}
	}
}

func (c *codec) origin(o *storage.Origin) {
	if c.has(*o != storage.Origin{}) {
		c.words(&o.Route, &o.Holder, &o.KeyHash, &o.Trace, &o.Program)
	}
}

// header writes or reads the number of fields, then an operation and two texts for each.
func (c *codec) header(h *storage.Header) {
	if !c.has(len(*h) > 0) {
		return
	}
	const least = 3 // bytes of a field
	size := c.uvarint(uint64(len(*h)))
	if c.reading {
		if size > uint64(len(c.rest))/least {
			c.cut = true
			return
		}
		*h = make(storage.Header, size)
	}
	for i := range *h {
		f := &(*h)[i]
		if operation := c.uvarint(uint64(f.Op)); c.reading { // others read the header that is written
			c.invalid = c.invalid || operation > uint64(storage.Sealed)
			f.Op = storage.FieldOp(operation)
		}
		c.words(&f.Name, &f.Value)
	}
}

// fingerprint is two fields, of which one has bytes: the 32 of a hash as package fingerprint writes
// it, or any text.
func (c *codec) fingerprint(text *string) {
	hash, made := records.RawFingerprint(*text)
	hashed := c.has(!c.reading && made)
	if hashed {
		c.raw(hash[:])
	}
	if c.has(!hashed && *text != "") {
		c.words(text)
	}
	if hashed && c.reading {
		*text = records.SpellFingerprint(&hash)
	}
}

// milliseconds rounds up, so that a record is kept for at least d.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
