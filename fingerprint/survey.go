package fingerprint

// survey goes through canonical text and passes each member to its visitor. Each
// method takes the offset in text of a value, and returns the end offset or stopped.
type survey struct {
	visitor visitor
	key     [16]byte
	depth   int    // the depth at which members end
	text    []byte // has at least wordSize bytes before the surveyed text, and that capacity after the text
	names   []byte // the text that trail refers to
	trail   []span // the names on the path to the current value; empty for an element
	path    []byte // one path at a time
	sorting *draft // of the text, if its members are not in order; otherwise nil
	sums    sipWriter
}

// visitor receives each member. It returns false to end the survey.
type visitor interface{ member(t tags) (more bool) }

const stopped = -1

func (s *survey) begin(key [16]byte, v visitor) { s.key, s.visitor = key, v }

func (s *survey) reset() {
	if s.visitor != nil { // most requests have no survey
		s.key, s.visitor, s.text, s.names, s.sorting = [16]byte{}, nil, nil, nil, nil
	}
}

// start prepares for text of that kind and returns the hash of the root.
func (s *survey) start(text, names []byte, of kind) (root sipHash) {
	s.text, s.names = text, names
	s.trail = s.trail[:0]
	return rootOf(s.key, of)
}

// rootOf returns the hash of the root of text of that kind.
func rootOf(key [16]byte, of kind) sipHash {
	var spelled [2 * wordSize]byte
	length := copy(spelled[wordSize:], of)
	return sipHashOf(key).absorb(spelled[:], wordSize, wordSize+length)
}

// member passes a member to the visitor and returns at, the member's end.
func (s *survey) member(place, value sipHash, at int) (end int) {
	if !s.visitor.member(tagsOf(place, value)) {
		return stopped
	}
	return at
}

// rawMember passes a member with the value text[from:to] to the visitor.
func (s *survey) rawMember(place sipHash, from, to int) (end int) {
	return s.member(place, place.then(valueMark).absorb(s.text, from, to), to)
}

// treeMember passes the object or array text[from:to] to the visitor as one member. Its
// value is the sorted text.
func (s *survey) treeMember(place sipHash, from, to int) (end int) {
	if s.sorting == nil {
		return s.rawMember(place, from, to)
	}
	s.sums = sipWriter{hash: place.then(valueMark)}
	s.sorting.writeSorted(&s.sums, span{uint32(from), uint32(to)}, s.sorting.groupsBefore(uint32(to)))
	return s.member(place, s.sums.end(), to)
}

// form surveys the pairs that builder.form appended.
func (s *survey) form(text []byte, in span, of kind) (more bool) {
	if in.from == in.to { // most requests have no query
		return true
	}
	root := s.start(text, text, of).then(nameMark)
	for at := int(in.from); at < int(in.to); at++ { // the comma
		name, value := s.component(at)
		_, end := s.component(value)
		if isFiller(text[value+2 : end]) {
			name = span{}
		}
		s.trail = append(s.trail[:0], name)
		if at = s.rawMember(root.absorb(text, at, value), value, end); at == stopped {
			return false
		}
	}
	return true
}

// isFiller reports whether the value of a pair is empty or the padding of base64. The
// name of such a pair is not shown: it may be a whole payload that is not a form.
func isFiller(value []byte) bool {
	return len(value) == 0 || len(value) == 1 && value[0] == '='
}

// component returns the end of a component that appendComponent appended, and the
// span of its decoded text. The span is empty for text that could not be decoded.
func (s *survey) component(at int) (decoded span, end int) {
	decoded, end = frameAt(s.text, at+1)
	if s.text[at] != 'd' {
		return span{}, end
	}
	return decoded, end
}

// multipart surveys the parts that builder.multipart appended.
func (s *survey) multipart(text []byte, in span, names []byte) (more bool) {
	root := s.start(text, names, kindMultipart).then(nameMark)
	nextName := wordSize
	for at := int(in.from); at < int(in.to); {
		var name span
		name, nextName = frameAt(names, nextName)
		end := at
		for range partFrames {
			_, end = frameAt(text, end)
		}
		s.trail = append(s.trail[:0], name)
		if at = s.rawMember(root.absorb(names, int(name.from), int(name.to)), at, end); at == stopped {
			return false
		}
	}
	return true
}

// partFrames is the number of frames of a part: three headers and the content.
const partFrames = 4

// json surveys the members of the document that builder.json appended. Members end
// depth levels deep.
func (s *survey) json(text []byte, in span, depth int) (more bool) {
	root := s.start(text, text, kindJSON)
	s.depth = depth
	at := int(in.from)
	return s.isLeaf(at) || s.value(at, root) != stopped
}

// isLeaf reports whether the value is a scalar, {} or [].
func (s *survey) isLeaf(at int) bool {
	first := s.text[at]
	return first != '{' && first != '[' || s.text[at+1] == first+2 // in ASCII
}

func (s *survey) value(at int, place sipHash) (end int) {
	switch first := s.text[at]; {
	case first == '"':
		value, quotation := place.then(textMark).absorbString(s.text, at+1)
		return s.member(place, value, quotation+1)
	case s.isLeaf(at):
		return s.rawMember(place, at, s.skipLeaf(at))
	case len(s.trail) == s.depth:
		return s.treeMember(place, at, s.skip(at))
	case first == '{':
		return s.object(at, place.then(nameMark))
	default:
		return s.array(at, place.then(indexMark))
	}
}

func (s *survey) object(at int, place sipHash) (end int) {
	for s.text[at] != '}' {
		name := at + 2 // after the bracket or comma, and the quotation mark
		inner, quotation := place.absorbString(s.text, name)
		s.trail = append(s.trail, span{uint32(name), uint32(quotation)})
		if at = s.value(quotation+2, inner); at == stopped { // after the colon
			return stopped
		}
		s.trail = s.trail[:len(s.trail)-1]
	}
	return at + 1
}

func (s *survey) array(at int, place sipHash) (end int) {
	for index := uint64(0); s.text[at] != ']'; index++ {
		s.trail = append(s.trail, span{})
		if at = s.value(at+1, place.absorbWord(index)); at == stopped { // after the bracket or comma
			return stopped
		}
		s.trail = s.trail[:len(s.trail)-1]
	}
	return at + 1
}

// skip returns the end of an object or array.
func (s *survey) skip(at int) (end int) {
	for open := 0; ; {
		switch s.text[at] {
		case '"':
			at = stringEnd(s.text, at+1)
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return at + 1
			}
		}
		at++
	}
}

// skipLeaf returns the end of a leaf that is not a string.
func (s *survey) skipLeaf(at int) (end int) {
	if s.text[at] == '{' || s.text[at] == '[' {
		return at + 2
	}
	for at < len(s.text) && s.text[at] != ',' && s.text[at] != '}' && s.text[at] != ']' {
		at++
	}
	return at
}
