package memstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
)

// entry begins with a finished record as an archive holds it:
//
//	 0  next      place of the next record with the same tag
//	 8  position  in the archive's deadlines, or gone
//	12  expires   nanoseconds since the store's start
//	20  identity
//	52  token
//	68  state
//	69  spelled   which of key and fingerprint are text
//	70  attempt, status, the lengths of all texts, and the texts
//
// Once it is there, only next and position change, and only under the shard's lock.
// The rest may be read at any time, by whoever has got hold of it.
type entry []byte

const (
	atPosition = 8
	atExpires  = 12
	atIdentity = 20
	atToken    = 52
	atState    = 68
	atSpelled  = 69
	preamble   = 70

	spelledKey         = 1
	spelledFingerprint = 2

	// gone is the position of a record that was removed.
	gone = 1<<32 - 1

	fingerprintPrefix = "sha256:"
	fingerprintLength = len(fingerprintPrefix) + 2*sha256.Size
)

func (e entry) next() place {
	return place{binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])}
}

func (e entry) setNext(p place) {
	binary.LittleEndian.PutUint32(e, p.chunk)
	binary.LittleEndian.PutUint32(e[4:], p.offset)
}

func (e entry) position() uint32 { return binary.LittleEndian.Uint32(e[atPosition:]) }

func (e entry) setPosition(position uint32) {
	binary.LittleEndian.PutUint32(e[atPosition:], position)
}

func (e entry) expires() time.Duration {
	return time.Duration(binary.LittleEndian.Uint64(e[atExpires:]))
}

func (e entry) setExpires(expires time.Duration) {
	binary.LittleEndian.PutUint64(e[atExpires:], uint64(expires))
}

func (e entry) identity() identity { return identity(e[atIdentity:]) }

func (e entry) token() core.Token { return core.Token(e[atToken:]) }

func (e entry) state() core.State { return core.State(e[atState]) }

// draft is what an entry is made of.
type draft struct {
	id       identity
	complete bool // the id says the key
	lease    core.Lease
	result   core.Result
}

// newDraft drops what is not kept of an answer.
func newDraft(id identity, complete bool, l core.Lease, res core.Result) draft {
	if res.State == core.Unreplayable {
		res.Header, res.Body = nil, nil
	}
	return draft{id, complete, l, res}
}

// limit is the most that the entry can take.
func (d *draft) limit() int {
	const lengths = 8
	limit := preamble + lengths*binary.MaxVarintLen64 + len(d.lease.Key) + len(d.lease.Fingerprint) + len(d.result.Sketch) + len(d.result.Body)
	for _, field := range d.result.Header {
		limit += 1 + 2*binary.MaxVarintLen32 + len(field.Name) + len(field.Value)
	}
	return limit
}

// appendTo writes the entry. It is linked to none, and its position and when it
// expires are left to be set.
func (d *draft) appendTo(b []byte) []byte {
	key, fingerprint, spelled := "", []byte(d.lease.Fingerprint), byte(0)
	if !d.complete {
		key, spelled = d.lease.Key, spelledKey
	}
	raw, ok := rawFingerprint(d.lease.Fingerprint)
	if ok {
		fingerprint = raw[:]
	} else {
		spelled |= spelledFingerprint
	}
	var links [atIdentity]byte
	entry(links[:]).setNext(nowhere)
	b = append(append(b, links[:]...), d.id[:]...)
	b = append(b, d.lease.Token[:]...)
	b = append(b, byte(d.result.State), spelled)
	b = binary.AppendUvarint(b, d.lease.Attempt)
	b = binary.AppendVarint(b, int64(d.result.Status))
	for _, length := range [...]int{len(key), len(fingerprint), len(d.result.Sketch), len(d.result.Body), len(d.result.Header)} {
		b = binary.AppendUvarint(b, uint64(length))
	}
	for _, field := range d.result.Header {
		b = append(b, byte(field.Op))
		b = binary.AppendUvarint(b, uint64(len(field.Name)))
		b = binary.AppendUvarint(b, uint64(len(field.Value)))
	}
	b = append(append(b, key...), fingerprint...)
	for _, field := range d.result.Header {
		b = append(append(b, field.Name...), field.Value...)
	}
	return append(append(b, d.result.Sketch...), d.result.Body...)
}

// rawFingerprint is the hash in a fingerprint that fingerprint.Sum has made.
func rawFingerprint(fingerprint string) (raw [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(fingerprint, fingerprintPrefix)
	if !ok {
		return raw, false
	}
	return unhex(digits)
}

// parts are an entry's, taken apart. The slices are the entry's own bytes.
type parts struct {
	attempt     uint64
	status      int
	key         []byte
	fingerprint []byte
	fields      int
	lengths     reader // of the fields' names and values
	texts       []byte // the fields' names and values
	sketch      []byte
	body        []byte
	size        int
}

func (e entry) parts() parts {
	r := reader{e[preamble:]}
	p := parts{attempt: r.uvarint(), status: int(r.varint())}
	key, fingerprint, sketch, body := r.length(), r.length(), r.length(), r.length()
	p.fields = r.length()
	p.lengths = r
	texts := 0
	for range p.fields {
		r.take(1)
		texts += r.length() + r.length()
	}
	p.key, p.fingerprint, p.texts = r.take(key), r.take(fingerprint), r.take(texts)
	p.sketch, p.body = r.take(sketch), r.take(body)
	p.size = len(e) - len(r.rest)
	return p
}

func (e entry) key() string {
	if e[atSpelled]&spelledKey == 0 {
		return e.identity().spell()
	}
	return string(e.parts().key)
}

// cost is what MaxBytes counts for the record.
func (e entry) cost(p *parts) int64 {
	key, fingerprint := 2*len(identity{}), fingerprintLength
	if e[atSpelled]&spelledKey != 0 {
		key = len(p.key)
	}
	if e[atSpelled]&spelledFingerprint != 0 {
		fingerprint = len(p.fingerprint)
	}
	return int64(recordOverhead + key + fingerprint + p.fields*fieldOverhead + len(p.texts) + len(p.sketch) + len(p.body))
}

// record is the whole record. The fingerprint that the caller expects is taken
// for the entry's when it is the same, which saves a copy of it.
func (e entry) record(expected string) *core.Record {
	p := e.parts()
	const few = 2 // fields that take no allocation of their own
	made := new(struct {
		record core.Record
		fields [few]core.Field
	})
	r := &made.record
	e.fill(r, &p, expected)
	if len(p.sketch) > 0 {
		r.Sketch = p.sketch
	}
	if len(p.body) > 0 {
		r.Body = p.body
	}
	switch {
	case p.fields > few:
		r.Header = make(core.Header, p.fields)
	case p.fields > 0:
		r.Header = made.fields[:p.fields:p.fields]
	}
	texts, lengths := string(p.texts), p.lengths
	for i := range r.Header {
		op, name, value := lengths.take(1)[0], lengths.length(), lengths.length()
		r.Header[i] = core.Field{Op: core.FieldOp(op), Name: texts[:name], Value: texts[name : name+value]}
		texts = texts[name+value:]
	}
	return r
}

// summary is the record without what its handler answered, but for the status.
func (e entry) summary() *core.Record {
	p, r := e.parts(), new(core.Record)
	e.fill(r, &p, "")
	return r
}

func (e entry) fill(r *core.Record, p *parts, expected string) {
	r.State, r.Attempt, r.Status = e.state(), p.attempt, p.status
	fingerprint := p.fingerprint
	if e[atSpelled]&spelledFingerprint == 0 {
		var spelled [fingerprintLength]byte
		fingerprint = hex.AppendEncode(append(spelled[:0], fingerprintPrefix...), fingerprint)
	}
	if r.Fingerprint = expected; expected != string(fingerprint) {
		r.Fingerprint = string(fingerprint)
	}
}

// reader takes an entry apart from the front.
type reader struct{ rest []byte }

func (r *reader) uvarint() uint64 {
	value, size := binary.Uvarint(r.rest)
	r.rest = r.rest[size:]
	return value
}

func (r *reader) varint() int64 {
	value, size := binary.Varint(r.rest)
	r.rest = r.rest[size:]
	return value
}

func (r *reader) length() int { return int(r.uvarint()) }

// take returns the next n bytes, which nobody can append to.
func (r *reader) take(n int) []byte {
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}
