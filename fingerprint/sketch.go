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
