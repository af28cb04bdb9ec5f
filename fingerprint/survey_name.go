package fingerprint

// maxName is how many bytes a name from Differences has at most.
const maxName = 128

// star stands for an element, and for a name that may not be shown.
const star = '*'

// name returns the path to where the survey is, in the notation of Exclude; or,
// if that is too long, the path to what it lies in. It returns "" if no step of
// the path may be shown.
func (s *survey) name() string {
	path, shown := s.path[:0], false
	for i, step := range s.trail {
		end, text := len(path), s.names[step.from:step.to]
		if i > 0 {
			path = append(path, '.')
		}
		isName := len(text) <= maxShownName && LooksLikeName(string(text))
		if isName {
			path = appendStep(path, text)
		} else {
			path = append(path, star)
		}
		if len(path) > maxName {
			path = path[:end]
			break
		}
		shown = shown || isName
	}
	s.path = path
	if !shown {
		return ""
	}
	return string(path)
}

// appendStep escapes dots. No other character of a name has a meaning in a path.
func appendStep(path, name []byte) []byte {
	for _, char := range name {
		if char == '.' {
			path = append(path, '\\')
		}
		path = append(path, char)
	}
	return path
}
