package memstore

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strings"
)

// identity is a key in 32 bytes: the value of its 64 hex digits, see unhex.
type identity [sha256.Size]byte

// spell returns the key as 64 hex digits.
func (id identity) spell() string {
	return hex.EncodeToString(id[:])
}

// name is the store's form of a key.
type name struct {
	id       identity
	complete bool   // the id holds the whole key
	hash     uint64 // of the id
}

// identify returns the key's name. A key that is not 64 hex digits (one that
// storage.Key did not make) is identified by a hash. The hash is keyed with the
// store's secret, so that no client can choose two keys that collide.
func (s *Store) identify(key string) name {
	id, complete := unhex(key)
	if !complete {
		id = sha256.Sum256(append(s.secret[:len(s.secret):len(s.secret)], key...))
	}
	return name{id, complete, s.hash(id)}
}

// hash chooses the location of a record. It has its own seed, because a client can
// try as many keys as it likes, and could otherwise choose keys that all land in one
// location.
func (s *Store) hash(id identity) uint64 { return maphash.Bytes(s.seed, id[:]) }

const (
	fingerprintPrefix = "sha256:"
	fingerprintLength = len(fingerprintPrefix) + 2*sha256.Size
)

// rawFingerprint returns the hash in a fingerprint that fingerprint.Sum has made.
func rawFingerprint(fingerprint string) (raw [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(fingerprint, fingerprintPrefix)
	if !ok {
		return raw, false
	}
	return unhex(digits)
}

func isFingerprint(fingerprint string, kept *[sha256.Size]byte) bool {
	raw, ok := rawFingerprint(fingerprint)
	return ok && raw == *kept
}

func spellFingerprint(raw *[sha256.Size]byte) string {
	var spelled [fingerprintLength]byte
	return string(hex.AppendEncode(append(spelled[:0], fingerprintPrefix...), raw[:]))
}

// unhex reads 64 lower-case hex digits. It refuses upper-case digits, because spell
// would not restore them.
func unhex(text string) (raw [sha256.Size]byte, ok bool) {
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
