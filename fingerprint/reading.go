package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
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
	return readings.Get().(*Reading).begin(&r, x)
}

// ReadForSketch is Read for a caller of AppendSketch with this key. It makes the sketch
// of a JSON body of at most 42 members while it parses the body. That takes less time
// than a second pass, and is wasted if no sketch is asked for.
func ReadForSketch(r Request, x *Exclusion, key [16]byte) *Reading {
	reading := readings.Get().(*Reading)
	reading.tagging, reading.tagKey = true, key
	return reading.begin(&r, x)
}

// begin parses the request.
func (r *Reading) begin(request *Request, x *Exclusion) *Reading {
	r.sum(r.read(request, x), &r.digest)
	return r
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
//
// The order of the members is not part of a sketch.
func (r *Reading) AppendSketch(dst []byte, key [16]byte) []byte {
	r.survey.begin(key, &r.sketcher)
	r.sketcher.count = 0
	if !r.surveyQuery() {
		return dst
	}
	fromQuery := r.sketcher.count
	if r.of == kindJSON && r.tagged && r.tagKey == key && fromQuery+r.tagger.leaves.count <= maxMembers {
		return appendSketch(dst, depths[0], r.sketcher.bytes(), r.tagger.leaves.bytes())
	}
	for _, depth := range depths {
		r.sketcher.count = fromQuery
		if r.surveyBody(int(depth)) {
			return appendSketch(dst, depth, r.sketcher.bytes(), nil)
		}
	}
	return dst
}

// Differences names the members of the request that are new or have another value
// than in the sketch. The sketch must be made with the same exclusion and key. missing
// counts the sketched members that the request lacks: a sketch does not keep names.
//
// A name is in the notation of [Exclude], with a star for every element of an array
// and for every step that does not look like a name (see [LooksLikeName]). Values
// never appear, even if the client used values as names: others counts the changed
// members whose path has no name that may be shown. A form field or query parameter
// with an empty value is never named, because any text sent as a form is such a
// field.
//
// The result has at most 16 names, sorted and distinct, of at most 128 bytes each.
// Members beyond 16 names count as others. A longer path is cut to the path of an
// enclosing object or array. A top-level member is named by its bare name, which
// excludes every member of that name. If requests of one shape differ only in the
// values of some members, and others is 0, then excluding the names makes the
// fingerprints equal.
//
// An unchanged member is named with a probability of 1 in 2^24, when its place has
// the tag of another place; a change goes unnoticed as rarely. A change of order alone
// (of form fields, parts, duplicate members that are leaves, members that differ in
// case) or of the media type is not part of any member. A sketch that is nil,
// malformed or of an unknown version gives no names and no missing members.
func (r *Reading) Differences(sketch []byte, key [16]byte) (names []string, others, missing int) {
	return r.compare(sketch, key, false)
}

// Same names the members of the request that have the same value as in the sketch, by the
// rules of Differences, but up to 42 of them. Members whose names may not be shown are left
// out.
func (r *Reading) Same(sketch []byte, key [16]byte) (names []string) {
	names, _, _ = r.compare(sketch, key, true)
	return names
}

// compare names the members that are equal to the sketch's, or the others.
func (r *Reading) compare(sketch []byte, key [16]byte, equal bool) (names []string, others, missing int) {
	if !isSketch(sketch) {
		return nil, 0, 0
	}
	r.comparer.begin(sketch[sketchHeader:], &r.survey, equal)
	r.survey.begin(key, &r.comparer)
	r.surveyQuery()
	r.surveyBody(int(sketch[1]))
	return r.comparer.end()
}

func isSketch(sketch []byte) bool {
	members := len(sketch) - sketchHeader
	return members > 0 && members%memberSize == 0 && len(sketch) <= MaxSketch &&
		sketch[0] == sketchVersion && slices.Contains(depths[:], sketch[1])
}

// Close returns the buffers to the pool, except buffers that a huge request made grow. The
// Reading must not be used or closed after Close: it may be another caller's by then.
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

// surveyQuery surveys the query's parameters.
func (r *Reading) surveyQuery() (more bool) {
	return r.survey.form(r.draft.text, r.queryText, kindQuery)
}

// surveyBody surveys the members of the body, which end depth levels deep.
func (r *Reading) surveyBody(depth int) (more bool) {
	if r.survey.sorting = nil; len(r.draft.groups) > 0 {
		r.survey.sorting = &r.draft
	}
	switch r.of {
	case kindJSON:
		return r.survey.json(r.draft.text, r.bodyText, depth)
	case kindForm:
		return r.survey.form(r.draft.text, r.bodyText, kindForm)
	case kindMultipart:
		return r.survey.multipart(r.draft.text, r.bodyText, r.partNames)
	default:
		return true
	}
}
