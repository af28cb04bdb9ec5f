package records

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	fingerprintPrefix = "sha256:"
	// FingerprintLength is the length of a fingerprint that package fingerprint has made.
	FingerprintLength = len(fingerprintPrefix) + 2*sha256.Size
)

// RawFingerprint returns the hash in a fingerprint that package fingerprint has made.
func RawFingerprint(fingerprint string) (raw [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(fingerprint, fingerprintPrefix)
	if !ok {
		return raw, false
	}
	return Unhex(digits)
}

// SpellFingerprint is the inverse of RawFingerprint.
func SpellFingerprint(raw *[sha256.Size]byte) string {
	var spelled [FingerprintLength]byte
	return string(hex.AppendEncode(append(spelled[:0], fingerprintPrefix...), raw[:]))
}

// Unhex reads 64 lower-case hex digits. It refuses upper-case digits, because a store that
// keeps the bytes would not restore them.
func Unhex(text string) (raw [sha256.Size]byte, ok bool) {
	if len(text) != 2*len(raw) {
		return raw, false
	}
	for i := range raw {
		high, low := digits[text[2*i]], digits[text[2*i+1]]
		if high|low >= notDigit {
			return raw, false
		}
		raw[i] = high<<4 | low
	}
	return raw, true
}

const notDigit = 16

// digits are the values of the lower-case hex digits. A table takes a third of the time
// of hex.Decode, and a first-time request decodes three texts.
var digits = func() (values [256]byte) {
	for i := range values {
		values[i] = notDigit
	}
	for value, digit := range []byte("0123456789abcdef") {
		values[digit] = byte(value)
	}
	return values
}()
