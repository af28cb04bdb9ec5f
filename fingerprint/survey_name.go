package fingerprint

// maxName is the longest name in bytes that Differences returns.
const maxName = 128

// star replaces the index of an element, and a name that may not be shown.
const star = '*'

// name returns the path to the current value, in the notation of Exclude. A path that
// is too long is cut to an enclosing object or array. name returns "" if no step of
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

// appendStep appends a name and escapes dots. No other character that a name may have
// has a meaning in a path.
func appendStep(path, name []byte) []byte {
	for _, char := range name {
		if char == '.' {
			path = append(path, '\\')
		}
		path = append(path, char)
	}
	return path
}
