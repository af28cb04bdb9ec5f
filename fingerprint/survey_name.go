package fingerprint

import "bytes"

// maxName is how many bytes a name from Differences has at most.
const maxName = 128

// star stands for an element, and for a name that has no notation.
const star = "*"

// name returns the path to where the survey is, in the notation of Exclude; or,
// if that is too long, the path to what it lies in.
func (s *survey) name() string {
	path := s.path[:0]
	for i, step := range s.trail {
		end := len(path)
		if i > 0 {
			path = append(path, '.')
		}
		if step.to-step.from <= maxName { // or it would be copied in vain
			path = s.appendStep(path, s.names[step.from:step.to])
		}
		if step.to-step.from > maxName || len(path) > maxName {
			path = path[:end]
			break
		}
	}
	s.path = path
	if len(path) == 0 {
		return star
	}
	return string(path)
}

func (s *survey) appendStep(path, name []byte) []byte {
	if len(name) == 0 || s.isJSON && hasSurrogate(name) {
		return append(path, star...)
	}
	for at := 0; at < len(name); at++ {
		if s.isJSON && name[at] == '\\' {
			at++ // a quotation mark or a backslash follows
		}
		if name[at] == '.' || name[at] == '*' || name[at] == '\\' {
			path = append(path, '\\')
		}
		path = append(path, name[at])
	}
	return path
}

// hasSurrogate reports whether a lone surrogate is in a canonically spelled name.
func hasSurrogate(name []byte) bool {
	for {
		escape := bytes.IndexByte(name, '\\')
		if escape < 0 {
			return false
		}
		if name[escape+1] == 'u' {
			return true
		}
		name = name[escape+2:]
	}
}
