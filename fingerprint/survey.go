package fingerprint

import (
	"encoding/binary"

	"github.com/dchest/siphash"
)

// survey goes through canonical text, members in the order of the input, and
// tells its visitor of each.
//
// A place is hashed from the root step by step, each step under a key that the
// step before made, so that a deep document costs no more than a flat one. What a
// key is made of is never shown: a tag is another part of the hash.
type survey struct {
	visitor visitor
	root    uint64 // half of the key at the root
	secret  uint64 // half of the key everywhere
	depth   int    // members end so deep
	text    []byte
	at      int    // offset in text of what comes next
	values  uint64 // the sum of the hashes of the leaves of the member
	names   []byte // what the trail refers to
	trail   []span // the names that lead to where at is; empty for an element
	isJSON  bool   // names are in the canonical spelling of JSON strings
	path    []byte // one at a time
}

// visitor is told of members; it returns false to end the survey.
type visitor interface{ member(t tags) (more bool) }

// span is a part of a buffer.
type span struct{ from, to uint32 }

// place is a hash of the path to a value: the key for all that is in it, and what
// may be shown.
type place struct {
	key uint64
	tag uint32
}

func (s *survey) begin(key [16]byte, v visitor) {
	s.visitor = v
	s.root = binary.LittleEndian.Uint64(key[:8])
	s.secret = binary.LittleEndian.Uint64(key[8:])
}

func (s *survey) reset() {
	if s.visitor == nil {
		return
	}
	s.visitor, s.text, s.names, s.root, s.secret = nil, nil, nil, 0, 0
}

// step returns the place that a step, of whatever notation, leads to.
func (s *survey) step(from uint64, to []byte) place {
	key, shown := siphash.Hash128(from, s.secret, to)
	return place{key: key, tag: uint32(shown) & tagMask}
}

// element is like step, for an element of an array.
func (s *survey) element(from uint64, index int) place {
	// No member's name begins with #, for it begins with a quotation mark.
	to := [9]byte{'#'}
	binary.LittleEndian.PutUint64(to[1:], uint64(index))
	return s.step(from, to[:])
}

// leaf adds a value to the member. Values have half a key of their own.
func (s *survey) leaf(p place, value []byte) {
	s.values += siphash.Hash(p.key, ^s.secret, value)
}

// member ends a member.
func (s *survey) member(p place) bool {
	t := tags{place: p.tag, value: uint32(s.values) & tagMask}
	s.values = 0
	return s.visitor.member(t)
}

// start prepares for text of that kind, and returns the key at its root.
func (s *survey) start(text []byte, depth int, of kind) uint64 {
	s.text, s.names, s.trail = text, text, s.trail[:0]
	s.at, s.depth, s.values = 0, depth, 0
	s.isJSON = of == kindJSON
	return s.step(s.root, []byte(of)).key
}

// surveyQuery tells of the query's parameters.
func (b *builder) surveyQuery(raw string) (more bool) {
	if len(raw) > maxCanonical {
		return true
	}
	b.label = append(b.label[:0], raw...)
	b.draft.cut(0)
	b.form(b.label)
	return b.survey.form(b.draft.text, kindQuery)
}

// readBody leaves the body in the draft, and returns which kind it is of.
func (b *builder) readBody(r Request) kind {
	media := parseMediaType(r.ContentType)
	of := kindOf(media, r.Body)
	b.draft.cut(0)
	if !b.canonical(of, media, r.Body) {
		return kindRaw
	}
	return of
}

// surveyBody tells of the members of the body that is in the draft.
func (b *builder) surveyBody(of kind, depth int) (more bool) {
	switch of {
	case kindJSON:
		return b.survey.json(b.draft.text, depth)
	case kindForm:
		return b.survey.form(b.draft.text, of)
	case kindMultipart:
		return b.survey.multipart(b.draft.text, b.partNames)
	default:
		return true
	}
}

// form tells of the pairs that builder.form left.
func (s *survey) form(text []byte, of kind) (more bool) {
	root := s.start(text, 1, of)
	for s.at < len(s.text) {
		start := s.at
		name := s.component()
		value := s.at
		s.component()
		p := s.step(root, s.text[start:value])
		s.leaf(p, s.text[value:s.at])
		s.at++ // the comma
		s.trail = append(s.trail[:0], name)
		if !s.member(p) {
			return false
		}
	}
	return true
}

// component goes behind what appendComponent appended, and returns where that was
// decoded; it is empty for what was not.
func (s *survey) component() (decoded span) {
	wellFormed := s.text[s.at] == 'd'
	decoded, s.at = frameAt(s.text, s.at+1)
	if !wellFormed {
		return span{}
	}
	return decoded
}

// frameAt returns the part in what appendFrame appended, and where that ends.
func frameAt(text []byte, at int) (part span, end int) {
	length, size := binary.Uvarint(text[at:])
	end = at + size + int(length)
	return span{uint32(at + size), uint32(end)}, end
}

// multipart tells of the parts that builder.multipart left.
func (s *survey) multipart(text, names []byte) (more bool) {
	root := s.start(text, 1, kindMultipart)
	s.names = names
	for nextName := 0; s.at < len(s.text); {
		var name span
		name, nextName = frameAt(names, nextName)
		start := s.at
		for range partFrames {
			_, s.at = frameAt(s.text, s.at)
		}
		p := s.step(root, names[name.from:name.to])
		s.leaf(p, s.text[start:s.at])
		s.trail = append(s.trail[:0], name)
		if !s.member(p) {
			return false
		}
	}
	return true
}
