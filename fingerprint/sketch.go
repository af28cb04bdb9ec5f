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
	sketchVersion = 1
	sketchHeader  = 2
	tagSize       = 3
	memberSize    = 2 * tagSize
	maxMembers    = (MaxSketch - sketchHeader) / memberSize
)

// depths are the depths at which AppendSketch tries to end members, in this order. At
// 255 each leaf is a member of its own.
var depths = [...]uint8{255, 3, 2, 1}

// tags are the stored hashes of a member: tagSize bytes of each hash.
type tags struct{ place, value uint32 }

const tagMask = 1<<(8*tagSize) - 1

func tagsOf(place, value sipHash) tags {
	return tags{place: uint32(place.sum()) & tagMask, value: uint32(value.sum()) & tagMask}
}

func readTags(from []byte) tags {
	both := binary.BigEndian.Uint64(append(make([]byte, 0, 8), 0, 0, from[0], from[1], from[2], from[3], from[4], from[5]))
	return tags{place: uint32(both >> (8 * tagSize)), value: uint32(both & tagMask)}
}

// sketcher collects up to maxMembers members.
type sketcher struct {
	members [maxMembers*memberSize + wordSize]byte // as stored; a member is put as a word
	count   int
}

func (s *sketcher) member(t tags) bool {
	if s.count == maxMembers {
		return false
	}
	at := s.count * memberSize
	binary.BigEndian.PutUint64(s.members[at:at+wordSize], uint64(t.place)<<40|uint64(t.value)<<16)
	s.count++
	return true
}

// bytes returns the members as stored.
func (s *sketcher) bytes() []byte { return s.members[:s.count*memberSize] }

// appendSketch appends a sketch of these members to dst. Without members dst stays as it is.
func appendSketch(dst []byte, depth uint8, query, body []byte) []byte {
	if len(query)+len(body) == 0 {
		return dst
	}
	dst = slices.Grow(dst, sketchHeader+len(query)+len(body))
	return append(append(append(dst, sketchVersion, depth), query...), body...)
}
