package wire

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/oncekey/oncekey/policy"
)

// FirstSentHeader is the header of OASIS Repeatable Requests Version 1.0 that has the
// time of the first attempt as an HTTP date.
const FirstSentHeader = "Repeatability-First-Sent"

// The reasons for refusing the time of a key, sent as the error member of the 400.
const (
	errFuture    = " must not be from more than five minutes in the future"
	errFirstSent = FirstSentHeader + " must be given once, as an HTTP date such as Sun, 06 Nov 1994 08:49:37 GMT"
)

// KeysWithTime describes the keys of a format whose time can be known. Where h is nil there
// is no FirstSentHeader, and a key has any format: see core.Do.
func KeysWithTime(format policy.KeySyntax, h http.Header) string {
	switch {
	case h == nil:
		return "a UUID of version 7 or a ULID"
	case format == policy.UUIDKey:
		return "a UUID of version 7, or any other UUID with the header " + FirstSentHeader
	default:
		return "a UUID of version 7 or a ULID, or any other key with the header " + FirstSentHeader
	}
}

// AgeOfKey returns the time since a key of the format was made, by the client's clock. A key
// without a time needs FirstSentHeader in h. place names the key in the error, which the
// client sees.
func AgeOfKey(key, place string, format policy.KeySyntax, h http.Header) (time.Duration, error) {
	made, has := TimeOfKey(key)
	if lines := h[FirstSentHeader]; !has && len(lines) > 0 {
		var err error
		if made, err = http.ParseTime(lines[0]); err != nil || len(lines) > 1 {
			return 0, errors.New(errFirstSent)
		}
		has, place = true, FirstSentHeader
	}
	age := time.Since(made)
	switch {
	case !has:
		return 0, errors.New(place + " must be " + KeysWithTime(format, h))
	case age < -policy.KeyClockTolerance:
		return 0, errors.New(place + errFuture)
	default:
		return age, nil
	}
}

// TimeOfKey returns the time at which a UUID of version 7 (RFC 9562, section 5.7) or a
// ULID was made, in either case: both begin with 48 bits of milliseconds since 1970. It
// reports false for any other key.
func TimeOfKey(key string) (made time.Time, has bool) {
	var number uint64
	switch {
	case isUUIDv7(key):
		number, has = digits(key[:8]+key[9:13], hexadecimal)
	case len(key) == 26 && key[0] <= '7': // 130 bits, of which a ULID has 128
		if _, has = digits(key[10:], crockford); has {
			number, has = digits(key[:10], crockford)
		}
	}
	if !has {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(number)), true
}

// isUUIDv7 reports whether a key is a UUID with the version 7 and the variant of RFC 9562
// (sections 4.1 and 4.2).
func isUUIDv7(key string) bool {
	return policy.UUIDKey.Allows(key) && key[14] == '7' && strings.IndexByte("89abAB", key[19]) >= 0
}

// The digits of two bases. Crockford's base32 leaves out I, L, O and U.
const (
	hexadecimal = "0123456789abcdef"
	crockford   = "0123456789abcdefghjkmnpqrstvwxyz"
)

// digits reads a number in the base of an alphabet, in either case. Of more than 64 bits it
// returns the last.
func digits(text, alphabet string) (number uint64, ok bool) {
	for i := range len(text) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		digit := strings.IndexByte(alphabet, c)
		if digit < 0 {
			return 0, false
		}
		number = number*uint64(len(alphabet)) + uint64(digit)
	}
	return number, true
}
