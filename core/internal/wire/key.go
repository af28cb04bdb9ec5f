package wire

import (
	"errors"
	"strings"
)

// KeyHeader is the request header that carries the idempotency key, unless the program
// names another one.
const KeyHeader = "Idempotency-Key"

// MaxKeyLength bounds a key, counted without the quotes of its string form.
const MaxKeyLength = 255

// The reasons for refusing a key, sent as the error member of the 400.
var (
	errKeyMissing  = errors.New("Idempotency-Key header is required")
	errKeyRepeated = errors.New("Idempotency-Key must be given once")
	errKeyTooLong  = errors.New("Idempotency-Key must not exceed 255 characters")
	errKeyInvalid  = errors.New("Idempotency-Key must be 1 to 255 visible ASCII characters, raw or as one string in quotes")
)

// ParseKey parses the value of a key header: a raw key, or a key as an RFC 8941 string in
// quotes. core.ParseKey describes the syntax.
func ParseKey(value string) (string, error) {
	value = trimBlanks(value)
	key, ok, quoted := value, true, strings.HasPrefix(value, `"`)
	if quoted {
		key, ok = unquote(value)
	} else if otherStructuredType(value) {
		ok = false
	}
	switch {
	case len(key) > MaxKeyLength:
		return "", errKeyTooLong
	case !ok || key == "" || !spellsKey(key, quoted):
		return "", errKeyInvalid
	}
	return key, nil
}

// trimBlanks is strings.Trim of spaces and tabs, without the set of characters that Trim
// makes for two: 2 % of a replay.
func trimBlanks(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// spellsKey reports whether a quoted or raw key has only allowed characters.
func spellsKey(key string, quoted bool) bool {
	for i := range len(key) {
		c := key[i]
		if c <= ' ' || c > '~' || !quoted && (c == '"' || c == ',' || c == ';') {
			return false
		}
	}
	return true
}

// unquote parses a value that is one RFC 8941 string (section 3.3.3).
func unquote(value string) (string, bool) {
	if !strings.Contains(value, `\`) {
		inner, closed := strings.CutSuffix(value[1:], `"`)
		return inner, closed && !strings.Contains(inner, `"`)
	}
	var key strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; c {
		case '"':
			return key.String(), i == len(value)-1
		case '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return key.String(), false
			}
			key.WriteByte(value[i])
		default:
			key.WriteByte(c)
		}
	}
	return key.String(), false
}

func otherStructuredType(value string) bool {
	return value == "?0" || value == "?1" ||
		len(value) > 1 && strings.HasPrefix(value, ":") && strings.HasSuffix(value, ":") ||
		strings.HasPrefix(value, "(") && strings.HasSuffix(value, ")")
}
