package memstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"strings"
)

// identity is a key in 32 bytes: what its 64 hex digits say, see unhex.
type identity [sha256.Size]byte

func (id identity) compare(other identity) int { return bytes.Compare(id[:], other[:]) }

// spell is the key of 64 hex digits.
func (id identity) spell() string {
	raw := [sha256.Size]byte(id)
	return string(appendHex(nil, &raw))
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
	return string(appendHex(append(spelled[:0], fingerprintPrefix...), raw))
}

// unhex reads 64 lower-case hex digits. Upper-case ones would not be spelled as
// they were.
//
// It reads eight digits at once, and puts two eights into eight bytes: the nth
// digit of the one beside the nth of the other. So the bytes are not in the usual
// order, but as good; appendHex puts them back.
func unhex(text string) (raw [sha256.Size]byte, ok bool) {
	if len(text) != 2*len(raw) {
		return raw, false
	}
	var wrong uint64
	for i := 0; i < len(raw); i += 8 {
		high, low := nibbles(text[2*i:2*i+8], &wrong), nibbles(text[2*i+8:2*i+16], &wrong)
		binary.LittleEndian.PutUint64(raw[i:], high<<4|low)
	}
	return raw, wrong == 0
}

// appendHex appends the digits that unhex has read.
func appendHex(b []byte, raw *[sha256.Size]byte) []byte {
	for i := 0; i < len(raw); i += 8 {
		both := binary.LittleEndian.Uint64(raw[i:])
		b = binary.LittleEndian.AppendUint64(b, digits(both>>4&(0xf*each)))
		b = binary.LittleEndian.AppendUint64(b, digits(both&(0xf*each)))
	}
	return b
}

// each has a one in each of eight bytes. What follows counts in all of them at
// once: bytes that are digits do not carry into each other, and others are wrong
// whatever they do.
const each = 0x01_01_01_01_01_01_01_01

// nibbles is the values of eight lower-case hex digits. For others it sets bits in
// wrong.
func nibbles(text string, wrong *uint64) uint64 {
	const letterBit = 6 // set in letters, and not in digits
	spelled := binary.LittleEndian.Uint64([]byte(text))
	values := (spelled + 9*(spelled>>letterBit&each)) & (0xf * each)
	*wrong |= spelled ^ digits(values)
	return values
}

// digits spells eight values of less than 16.
func digits(values uint64) uint64 {
	const toLetters = 'a' - '0' - 10
	letters := (values + 6*each) >> 4 & each
	return values + '0'*each + toLetters*letters
}
