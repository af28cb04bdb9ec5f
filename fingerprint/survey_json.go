package fingerprint

// json tells of the members of the document that builder.json left. They end
// depth levels deep.
func (s *survey) json(text []byte, depth int) (more bool) {
	root := s.start(text, depth, kindJSON)
	return s.isLeaf() || s.value(place{key: root})
}

// isLeaf reports whether the value that comes next has no other in it.
func (s *survey) isLeaf() bool {
	first := s.text[s.at]
	return first != '{' && first != '[' || s.text[s.at+1] == first+2 // in ASCII
}

// skipLeaf goes behind a leaf.
func (s *survey) skipLeaf() {
	switch s.text[s.at] {
	case '{', '[':
		s.at += 2
	case '"':
		s.skipString()
	default:
		for s.at < len(s.text) && s.text[s.at] != ',' && s.text[s.at] != '}' && s.text[s.at] != ']' {
			s.at++
		}
	}
}

// skipString goes behind a string. Control characters are no end of it.
func (s *survey) skipString() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// value goes behind the value at that place.
func (s *survey) value(p place) (more bool) {
	if s.isLeaf() {
		start := s.at
		s.skipLeaf()
		s.leaf(p, s.text[start:s.at])
		return s.member(p) // for those in a member do not come here
	}
	if s.text[s.at] == '{' {
		more = s.object(p)
	} else {
		more = s.array(p)
	}
	return more && (len(s.trail) != s.depth || s.member(p))
}

func (s *survey) object(p place) (more bool) {
	inMember := len(s.trail) >= s.depth
	for s.text[s.at] != '}' {
		s.at++ // the bracket or comma
		start := s.at
		s.skipString()
		nameEnd := s.at
		s.at++ // the colon
		if inMember && s.isLeaf() {
			s.skipLeaf()
			s.leaf(p, s.text[start:s.at]) // with its name, for hashing each would be slow
			continue
		}
		s.trail = append(s.trail, span{uint32(start + 1), uint32(nameEnd - 1)})
		if !s.value(s.step(p.key, s.text[start:nameEnd])) {
			return false
		}
		s.trail = s.trail[:len(s.trail)-1]
	}
	s.at++
	return true
}

func (s *survey) array(p place) (more bool) {
	inMember := len(s.trail) >= s.depth
	for index := 0; s.text[s.at] != ']'; index++ {
		s.at++ // the bracket or comma
		inner := s.element(p.key, index)
		if inMember && s.isLeaf() {
			s.leaves(inner)
			continue
		}
		s.trail = append(s.trail, span{})
		if !s.value(inner) {
			return false
		}
		s.trail = s.trail[:len(s.trail)-1]
	}
	s.at++
	return true
}

// leaves takes the elements from here to the next that is no leaf for one value,
// for hashing each would be slow.
func (s *survey) leaves(first place) {
	start := s.at
	s.skipLeaf()
	for s.text[s.at] == ',' {
		end := s.at
		s.at++
		if !s.isLeaf() {
			s.at = end
			break
		}
		s.skipLeaf()
	}
	s.leaf(first, s.text[start:s.at])
}
