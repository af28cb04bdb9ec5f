package memstore

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/oncekey/oncekey/core/storage"
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
	return cost(d.lease.Key, d.lease.Fingerprint, &d.lease.Origin) +
		int64(len(d.result.Header)*fieldOverhead+d.texts+len(d.result.Sketch)+len(d.result.Body))
}

// isTombstone reports whether the entry lacks the fields of a finished record.
func (d *draft) isTombstone() bool { return d.result.State == storage.Expired }

// form says which of the fields are text, and which optional fields there are.
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
	raw, known := rawFingerprint(d.lease.Fingerprint)
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

// appendText writes a text after its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
