package fingerprint

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
