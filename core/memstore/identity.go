package memstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strings"
)

// identity is a key in 32 bytes: what its 64 hex digits say, see unhex.
type identity [sha256.Size]byte

func (id identity) compare(other identity) int { return bytes.Compare(id[:], other[:]) }

// spell is the key of 64 hex digits.
func (id identity) spell() string {
	return hex.EncodeToString(id[:])
}

// name is a key as the store knows it.
type name struct {
	id       identity
	complete bool   // the id says the key
	hash     uint64 // of the id
}

// identify returns the key's name. A key which is not 64 hex digits, one that
// storage.Key did not make, is known by a hash. It is keyed with the store's
// secret, so that nobody can choose two keys that meet.
func (s *Store) identify(key string) name {
	id, complete := unhex(key)
	if !complete {
		id = sha256.Sum256(append(s.secret[:len(s.secret):len(s.secret)], key...))
	}
	return name{id, complete, s.hash(id)}
}

// hash chooses where a record is. It has a seed of its own, so that nobody can
// choose keys that are all in one place: storage keys are hashes, but of what
// clients choose, as often as they like.
func (s *Store) hash(id identity) uint64 { return maphash.Bytes(s.seed, id[:]) }

// rawFingerprint is the hash in a fingerprint that fingerprint.Sum has made.
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

// unhex reads 64 lower-case hex digits. It refuses upper-case ones, which would not
// be spelled as they were.
func unhex(text string) (raw [sha256.Size]byte, ok bool) {
	var digits [2 * len(raw)]byte
	if copy(digits[:], text) != len(text) {
		return raw, false
	}
	for _, digit := range digits {
		if 'A' <= digit && digit <= 'F' {
			return raw, false
		}
	}
	_, err := hex.Decode(raw[:], digits[:])
	return raw, err == nil
}
