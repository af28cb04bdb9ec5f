package fingerprint

import (
	"encoding/binary"
	"slices"
)

// MaxSketch is the largest size of a sketch in bytes.
const MaxSketch = 256

// A sketch holds a version, the depth at which its members end, and for each member
// a tag of the place and a tag of the value.
const (
	sketchVersion = 2
	sketchHeader  = 2
	tagSize       = 3
	memberSize    = 2 * tagSize
	maxMembers    = (MaxSketch - sketchHeader) / memberSize
)

// depths are the depths at which AppendSketch tries to end members, in this order. At
// 255 each leaf is a member of its own.
var depths = [...]uint8{255, 3, 2, 1}

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
	if !isSketch(sketch) {
		return nil, 0, 0
	}
	r.comparer.begin(sketch[sketchHeader:], &r.survey)
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

// tags are the stored hashes of a member: tagSize bytes of each hash.
type tags struct{ place, value uint32 }

const tagMask = 1<<(8*tagSize) - 1

func (t tags) append(dst []byte) []byte {
	return append(dst, byte(t.place>>16), byte(t.place>>8), byte(t.place), byte(t.value>>16), byte(t.value>>8), byte(t.value))
}

func readTags(from []byte) tags {
	both := binary.BigEndian.Uint64(append(make([]byte, 0, 8), 0, 0, from[0], from[1], from[2], from[3], from[4], from[5]))
	return tags{place: uint32(both >> (8 * tagSize)), value: uint32(both & tagMask)}
}

// sketcher collects up to maxMembers members.
type sketcher struct {
	members [maxMembers]tags
	count   int
}

func (s *sketcher) member(t tags) bool {
	if s.count == maxMembers {
		return false
	}
	s.members[s.count] = t
	s.count++
	return true
}

// append appends the sketch to dst. Without members dst stays as it is.
func (s *sketcher) append(dst []byte, depth uint8) []byte {
	if s.count == 0 {
		return dst
	}
	dst = slices.Grow(dst, sketchHeader+memberSize*s.count)
	dst = append(dst, sketchVersion, depth)
	for _, t := range s.members[:s.count] {
		dst = t.append(dst)
	}
	return dst
}
