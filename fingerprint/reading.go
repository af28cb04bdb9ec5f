package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Size is how many bytes a fingerprint has.
const Size = len(prefix) + 2*sha256.Size

const prefix = "sha256:"

// Reading is a request that has been read, so that more than one thing can be
// told of it: its fingerprint, a sketch of its members, and what they differ in from
// those of another sketch. It borrows buffers from a pool until it is closed, and is
// not safe for concurrent use.
type Reading struct {
	builder
	digest [sha256.Size]byte
}

var readings = sync.Pool{New: func() any { return new(Reading) }}

// Read reads a request once, without what x excludes. A nil x excludes nothing.
// Whoever calls it must call Close. The request's Body must not change until then.
func Read(r Request, x *Exclusion) *Reading {
	reading := readings.Get().(*Reading)
	reading.sum(reading.read(&r, x), &reading.digest)
	return reading
}

// AppendFingerprint appends what [Of] returns to dst: [Size] bytes. It allocates
// nothing if dst has room for them.
func (r *Reading) AppendFingerprint(dst []byte) []byte {
	return hex.AppendEncode(append(dst, prefix...), r.digest[:])
}

// AppendSketch appends a sketch of the request to dst, of [MaxSketch] bytes at
// most, or nothing if there is none. It allocates nothing if dst has room for it.
//
// A sketch consists of short keyed hashes of the members that are not excluded,
// by which [Reading.Differences] tells which of them another request changed. It keeps
// neither names nor values. The key must be secret from whoever reads the
// sketch, or a guess at a value could be confirmed.
//
// A member is a leaf of a JSON document (a scalar, {} or []), a query parameter,
// a form field or a part of a multipart form. If these are more than fit, which
// are 42, what lies 3, 2 or 1 levels deep in the document is one member each
// with all that is in it: the deepest of these levels at which they fit.
//
// There is no sketch if the members do not fit at all, and if there are none: no
// query, and a body that is empty, a scalar or counts byte by byte.
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

// Close gives the buffers back to the pool, but for those that a huge request
// made grow. The Reading must not be used afterwards.
func (r *Reading) Close() {
	r.release()
	readings.Put(r)
}

// Of returns the fingerprint of r without what x excludes: "sha256:" and 64
// lower-case hexadecimal digits. A nil x excludes nothing. It is safe for
// concurrent use.
func Of(r Request, x *Exclusion) string {
	reading := Read(r, x)
	defer reading.Close()
	var room [Size]byte
	return string(reading.AppendFingerprint(room[:0]))
}
