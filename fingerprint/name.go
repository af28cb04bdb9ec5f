package fingerprint

// maxShownName is the longest name in bytes that LooksLikeName accepts.
const maxShownName = 64

// LooksLikeName reports whether text may appear in a log as the name of a member. A
// client's names can hold private data: a map can be keyed by card numbers or mail
// addresses, and a JSON body sent as a form is one long name. The rule is therefore
// strict:
//
//   - 1 to 64 ASCII letters, digits, and the separators _ - . [ ]
//   - the first character is a letter or _, or follows a $ or @
//   - at most 3 digits, and no lower-case letter directly behind a digit
//   - upper case, lower case and digits alternate as rarely as in words: three times
//     the number of changes is at most the length plus 2
//
// Names such as sentAt, line_item[0][sku], $ref and sha256Sum pass. Card and phone
// numbers, mail addresses, UUIDs, sentences and nearly all random tokens do not. A
// single word passes, because a secret word looks like a name.
func LooksLikeName(text string) bool {
	word := text
	if text != "" && (text[0] == '$' || text[0] == '@') {
		word = text[1:]
	}
	return word != "" && len(text) <= maxShownName && beginsName(word[0]) && isWordLike(word)
}

func beginsName(char byte) bool {
	class := classOf(char)
	return class == lowerCase || class == upperCase || char == '_'
}

// isWordLike reports whether the characters of word are allowed in a name and
// alternate as rarely as in words.
func isWordLike(word string) bool {
	before, last := separator, separator // the classes of the last character and of the last non-separator
	digits, changes := 0, 0
	for i := range len(word) {
		class := classOf(word[i])
		switch {
		case class == noName, class == lowerCase && before == numeral:
			return false
		case class == numeral:
			digits++
		}
		if before = class; class == separator {
			continue
		}
		if class != last && last != separator {
			changes++
		}
		last = class
	}
	return digits <= 3 && 3*changes <= len(word)+2
}

// class is a kind of character in a name.
type class uint8

const (
	noName class = iota // not allowed in a name
	lowerCase
	upperCase
	numeral
	separator
)

func classOf(char byte) class {
	switch {
	case 'a' <= char && char <= 'z':
		return lowerCase
	case 'A' <= char && char <= 'Z':
		return upperCase
	case '0' <= char && char <= '9':
		return numeral
	case char == '_', char == '-', char == '.', char == '[', char == ']':
		return separator
	default:
		return noName
	}
}

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
