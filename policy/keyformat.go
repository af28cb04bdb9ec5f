package policy

import (
	"errors"
	"regexp"
	"strings"
)

// KeySyntax is a format of idempotency keys. UUIDKey and KeyPattern make one. The zero
// value allows every key.
type KeySyntax struct {
	name    string // UUID, or the pattern
	pattern *regexp.Regexp
	err     error // of the pattern
}

// UUIDKey is the format of a UUID in its text form (RFC 9562), in either case:
// 8e03978e-40d5-43dd-bc93-6894a57f9324.
var UUIDKey = KeySyntax{name: "UUID"}

// KeyPattern is the format of keys that the regular expression matches as a whole.
// Validate refuses an expression that cannot be compiled.
func KeyPattern(expression string) KeySyntax {
	compiled, err := regexp.Compile(expression)
	switch {
	case expression == "":
		return KeySyntax{err: errors.New("empty expression")}
	case err != nil:
		return KeySyntax{name: expression, err: err}
	}
	compiled.Longest() // so that a match of a whole key is found before shorter ones
	return KeySyntax{name: expression, pattern: compiled}
}

// String returns UUID, the regular expression, or "" where every key is allowed.
func (f KeySyntax) String() string { return f.name }

// Allows reports whether a key has the format.
func (f KeySyntax) Allows(key string) bool {
	switch {
	case f.pattern != nil:
		at := f.pattern.FindStringIndex(key)
		return len(at) == 2 && at[0] == 0 && at[1] == len(key)
	case f == UUIDKey:
		return isUUID(key)
	default:
		return true
	}
}

// Expected describes the format to a client.
func (f KeySyntax) Expected() string {
	if f == UUIDKey {
		return "a UUID, such as 8e03978e-40d5-43dd-bc93-6894a57f9324"
	}
	return "a key that matches " + f.name
}

// Expression returns an RE2 expression that an allowed key matches as a whole, or "" where
// every key is allowed.
func (f KeySyntax) Expression() string {
	if f == UUIDKey {
		return "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
	}
	return f.name
}

func isUUID(key string) bool {
	return len(key) == 36 && key[8] == '-' && key[13] == '-' && key[18] == '-' && key[23] == '-' &&
		strings.Count(key, "-") == 4 && strings.Trim(key, "-0123456789ABCDEFabcdef") == ""
}
