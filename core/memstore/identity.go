package memstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// identity is a key in 32 bytes: what its 64 hex digits say.
type identity [sha256.Size]byte

func (id identity) compare(other identity) int { return bytes.Compare(id[:], other[:]) }

// spell is the key of 64 hex digits.
func (id identity) spell() string { return hex.EncodeToString(id[:]) }

// identify returns a key's identity, and whether that says it all. A key which is
// not 64 hex digits, one that core.StorageKey did not make, is known by a hash. It
// is keyed with the store's secret, so that nobody can choose two keys that meet.
func (s *Store) identify(key string) (id identity, complete bool) {
	if id, ok := unhex(key); ok {
		return id, true
	}
	return sha256.Sum256(append(s.secret[:len(s.secret):len(s.secret)], key...)), false
}

// unhex reads 64 lower-case hex digits. Upper-case ones would not be spelled as
// they were.
func unhex(text string) (raw [sha256.Size]byte, ok bool) {
	if len(text) != 2*len(raw) {
		return raw, false
	}
	var all byte
	for i := range raw {
		high, low := digitValues[text[2*i]], digitValues[text[2*i+1]]
		all |= high | low
		raw[i] = high<<4 | low
	}
	return raw, all < noDigit
}

const noDigit = 16

// digitValues are those of the lower-case hex digits, and noDigit for the rest.
var digitValues = func() (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for value, digit := range "0123456789abcdef" {
		values[digit] = byte(value)
	}
	return values
}()
