package memstore

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// The fields of an entry after its run are
//
//	attempt, status, number of fields, lengths of header, sketch and body, retain;
//	remember, key, fingerprint, digest, origin, header, token, sketch, body
//
// Remember, digest and origin are optional. A tombstone has only attempt, status, key,
// fingerprint and digest. The fields that a replay needs come first and close together,
// because an entry is in no processor's cache.

// Bits of an entry's form.
const (
	spelledKey         = 1
	spelledFingerprint = 2
	digested           = 4
	remembered         = 8
	sourced            = 16
)

// draft is the input of an entry.
type draft struct {
	name   *name
	lease  *storage.Lease
	result *storage.Result // without the fields that are not kept
	run    time.Duration   // from the claim to now
	texts  int             // bytes of the header's names and values
	header int             // bytes of the header in the entry
}

func newDraft(n *name, l *storage.Lease, res *storage.Result) draft {
	d := draft{name: n, lease: l, result: res}
	for i := range res.Header {
		name, value := len(res.Header[i].Name), len(res.Header[i].Value)
		d.texts += name + value
		d.header += 1 + uvarintSize(name) + uvarintSize(value)
	}
	d.header += d.texts
	return d
}

func uvarintSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// limit is the maximum size of the entry.
func (d *draft) limit() int {
	const lengths, fixed = 15 * binary.MaxVarintLen64, len(storage.Digest{}) + len(storage.Token{})
	return preamble + runBytes + lengths + len(d.lease.Fingerprint) + len(d.lease.Key) + originTexts(&d.lease.Origin) + d.header + fixed + len(d.result.Sketch) + len(d.result.Body)
}

// cost is the size that MaxBytes counts for the record; see entry.cost.
func (d *draft) cost() int64 {
	return cost(&d.lease.Claim) +
		int64(len(d.result.Header)*fieldOverhead+d.texts+len(d.result.Sketch)+len(d.result.Body))
}

// isTombstone reports whether the entry lacks the fields of a finished record.
func (d *draft) isTombstone() bool { return d.result.State == storage.Expired }

// form returns the bits of the fields that are text or optional.
func (d *draft) form(fingerprintKnown bool) (form byte) {
	if !d.name.complete {
		form |= spelledKey
	}
	if !fingerprintKnown {
		form |= spelledFingerprint
	}
	if d.lease.Digest != (storage.Digest{}) {
		form |= digested
	}
	if d.result.Remember > 0 {
		form |= remembered
	}
	if d.lease.Origin != (storage.Origin{}) && !d.isTombstone() {
		form |= sourced
	}
	return form
}

// appendTo writes the entry. The caller sets its position, its expiry and its run.
func (d *draft) appendTo(b []byte) []byte {
	raw, known := records.RawFingerprint(d.lease.Fingerprint)
	form := d.form(known)
	var unset [atIdentity]byte
	b = append(append(b, unset[:]...), d.name.id[:]...)
	b = append(b, byte(d.result.State), form)
	if !d.isTombstone() {
		b = append(b, unset[:runBytes]...)
	}
	b = binary.AppendUvarint(b, d.lease.Attempt)
	b = binary.AppendVarint(b, int64(d.result.Status))
	if !d.isTombstone() {
		for _, length := range [...]int{len(d.result.Header), d.header, len(d.result.Sketch), len(d.result.Body)} {
			b = binary.AppendUvarint(b, uint64(length))
		}
		b = binary.AppendUvarint(b, milliseconds(d.result.Retain))
	}
	if form&remembered != 0 {
		b = binary.AppendUvarint(b, uint64(d.result.Remember))
	}
	if !d.name.complete {
		b = appendText(b, d.lease.Key)
	}
	if known {
		b = append(b, raw[:]...)
	} else {
		b = appendText(b, d.lease.Fingerprint)
	}
	if form&digested != 0 {
		b = append(b, d.lease.Digest[:]...)
	}
	if form&sourced != 0 {
		b = appendOrigin(b, &d.lease.Origin)
	}
	if d.isTombstone() {
		return b
	}
	for i := range d.result.Header {
		field := &d.result.Header[i]
		b = appendText(appendText(append(b, byte(field.Op)), field.Name), field.Value)
	}
	b = append(b, d.lease.Token[:]...)
	return append(append(b, d.result.Sketch...), d.result.Body...)
}

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

// cost is the size that MaxBytes counts for the record: the cost of its draft.
func (e entry) cost(p *parts) int64 {
	sum := recordOverhead + 2*len(identity{}) + records.FingerprintLength + p.fields*fieldOverhead + len(p.sketch) + len(p.body)
	if e.has(spelledKey) {
		sum += len(p.key) - 2*len(identity{})
	}
	if e.has(spelledFingerprint) {
		sum += len(p.fingerprint) - records.FingerprintLength
	}
	if len(p.origin) > 0 {
		o := originOf(p.origin)
		sum += originTexts(&o)
	}
	for r := (reader{p.header, 0}); r.at < len(p.header); {
		r.take(1)
		sum += len(r.text()) + len(r.text())
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
		op := storage.FieldOp(rest.take(1)[0])
		r.Header[i] = storage.Field{Op: op, Name: rest.text(), Value: rest.text()}
	}
	return r
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
		return records.SpellFingerprint(kept)
	}
	return expected
}
