package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Size is the length of a fingerprint in bytes.
const Size = len(prefix) + 2*sha256.Size

const prefix = "sha256:"

// Reading is a parsed request. It gives the request's fingerprint, a sketch of the
// members, and the differences from another sketch. A Reading borrows buffers from a
// pool until Close, and is not safe for concurrent use.
type Reading struct {
	builder
	digest [sha256.Size]byte
}

var readings = sync.Pool{New: func() any { return new(Reading) }}

// Read parses a request once, without the fields in x. A nil x excludes no field. The
// caller must call Close, and must not change the request's Body until then.
func Read(r Request, x *Exclusion) *Reading {
	reading := readings.Get().(*Reading)
	reading.sum(reading.read(&r, x), &reading.digest)
	return reading
}

// AppendFingerprint appends the fingerprint to dst, as [Of] returns it: [Size] bytes.
// It does not allocate if dst has the capacity.
func (r *Reading) AppendFingerprint(dst []byte) []byte {
	return hex.AppendEncode(append(dst, prefix...), r.digest[:])
}

// AppendSketch appends a sketch of the request to dst: at most [MaxSketch] bytes, and
// no byte if the request has no sketch. It does not allocate if dst has the capacity.
//
// A sketch consists of short keyed hashes of the members that are not excluded.
// [Reading.Differences] uses a sketch to name the members that another request
// changed. A sketch keeps neither names nor values. Keep the key secret from readers
// of the sketch: with the key, a reader could confirm a guessed value.
//
// A member is a leaf of a JSON document (a scalar, {} or []), a query parameter,
// a form field or a part of a multipart form. At most 42 members fit. If a document
// has more, each value 3, 2 or 1 levels deep counts as one member with its whole
// content; AppendSketch takes the deepest of these levels that fits.
//
// A request has no sketch if its members do not fit at any level. It has none either
// without members: no query, and a body that is empty, a scalar or counts byte by
// byte.
func (r *Reading) AppendSketch(dst []byte, key [16]byte) []byte {
	r.survey.begin(key, &r.sketcher)
	r.sketcher.count = 0
	if !r.surveyQuery() {
		return dst
	}
	fromQuery := r.sketcher.count
	for _, depth := range depths {
		r.sketcher.count = fromQuery
		if r.surveyBody(int(depth)) {
			return r.sketcher.append(dst, depth)
		}
	}
	return dst
}

// Close returns the buffers to the pool, except buffers that a huge request made
// grow. The Reading must not be used after Close.
func (r *Reading) Close() {
	r.release()
	readings.Put(r)
}

// Of returns the fingerprint of r without the fields in x: "sha256:" and 64
// lower-case hexadecimal digits. A nil x excludes no field. Of is safe for concurrent
// use.
func Of(r Request, x *Exclusion) string {
	reading := Read(r, x)
	defer reading.Close()
	var buffer [Size]byte
	return string(reading.AppendFingerprint(buffer[:0]))
}
