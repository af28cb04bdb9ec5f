package redisstore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// A finished record with a Remember has two keys. The key itself has a short value,
// which is a tombstone from the end of Retain on. The response is a value of its own,
// which expires with Retain. The short value is binary, and no version before reads
// it:
//
//	mark         8  "oncekey" and the format's version
//	token       16
//	attempt      8  big endian, as all numbers
//	state        1
//	status       2
//	digest      16
//	remember     8  milliseconds
//	form         1  of the fingerprint: any text, or a hash
//	fingerprint 32  of a hash, or the bytes of the text
//
// The mark, the token and the attempt are compared by settleScript.
const (
	rememberedMark = "oncekey\x02"
	tokenAt        = len(rememberedMark)
	attemptAt      = tokenAt + len(storage.Token{})
	stateAt        = attemptAt + 8
	statusAt       = stateAt + 1
	digestAt       = statusAt + 2
	rememberAt     = digestAt + len(storage.Digest{})
	formAt         = rememberAt + 8
	fingerprintAt  = formAt + 1
	hashSize       = 32

	anyText, hashed = 0, 1
	// hashPrefix is the text before the hex digits of a hash.
	hashPrefix = "sha256:"

	responseSuffix = ":response"
)

// errBraces refuses a Remember.
var errBraces = errors.New("the prefix has a brace, so a remembered record's two keys cannot share a slot: want a Prefix without braces")

func encodeRemembered(l storage.Lease, res storage.Result) []byte {
	b := append(make([]byte, 0, fingerprintAt+hashSize), rememberedMark...)
	b = append(b, l.Token[:]...)
	b = binary.BigEndian.AppendUint64(b, l.Attempt)
	b = append(b, byte(res.State))
	b = binary.BigEndian.AppendUint16(b, uint16(res.Status))
	b = append(b, l.Digest[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(milliseconds(res.Remember)))
	if hash, is := hashOf(l.Fingerprint); is {
		return append(append(b, hashed), hash...)
	}
	return append(append(b, anyText), l.Fingerprint...)
}

// result returns the keys and the arguments of settleScript for a result.
func (s *Store) result(l storage.Lease, res storage.Result) (keys []string, arguments []any, err error) {
	keys, arguments = []string{s.prefix + l.Key}, []any{attemptPrefix(l), encodeResult(l, res, time.Now()), milliseconds(res.Retain)}
	if res.Remember > 0 {
		response, possible := s.responseKey(l.Key)
		if !possible {
			return nil, nil, errBraces
		}
		keys = append(keys, response)
		arguments = append([]any{arguments[0], encodeRemembered(l, res), lifetime(res.Retain, res.Remember)}, arguments[1:]...)
	}
	if s.replicas.wanted > 0 {
		arguments = append(arguments, s.replicas.wanted)
	}
	return keys, arguments, nil
}

// hashOf returns the bytes of a fingerprint as package fingerprint writes it.
func hashOf(fingerprint string) (hash []byte, is bool) {
	digits, is := strings.CutPrefix(fingerprint, hashPrefix)
	if !is || len(digits) != hex.EncodedLen(hashSize) || strings.ToLower(digits) != digits {
		return nil, false
	}
	hash, err := hex.DecodeString(digits)
	return hash, err == nil
}

func isRemembered(value []byte) bool { return bytes.HasPrefix(value, []byte(rememberedMark)) }

// decodeRemembered reads a short value. Its record has no response yet, see join.
func (s *stored) decodeRemembered(value []byte) error {
	if len(value) < fingerprintAt {
		return records.Corrupt("its short form has %d bytes, not at least %d", len(value), fingerprintAt)
	}
	s.apart = true
	copy(s.token[:], value[tokenAt:])
	copy(s.record.Digest[:], value[digestAt:])
	s.record.Attempt = binary.BigEndian.Uint64(value[attemptAt:])
	s.record.State = storage.State(value[stateAt])
	s.record.Status = int(binary.BigEndian.Uint16(value[statusAt:]))
	remember := binary.BigEndian.Uint64(value[rememberAt:])
	if remember <= math.MaxInt64 {
		s.remember = duration(int64(remember))
	}
	switch r := &s.record; {
	case r.Attempt < 1:
		return records.Corrupt("its attempt number is 0")
	case r.State < storage.Completed || r.State > storage.Unreplayable:
		return records.Corrupt("its state is %d", r.State)
	case r.Status < minStatus || r.Status > maxStatus:
		return records.Corrupt("its status is %d", r.Status)
	case s.remember == 0:
		return records.Corrupt("it is remembered for %d ms", remember)
	}
	return s.readFingerprint(value[formAt], value[fingerprintAt:])
}

func (s *stored) readFingerprint(form byte, content []byte) error {
	switch {
	case form == hashed && len(content) == hashSize:
		s.record.Fingerprint = hashPrefix + hex.EncodeToString(content)
	case form == anyText && utf8.Valid(content):
		s.record.Fingerprint = string(content)
	default:
		return records.Corrupt("its fingerprint of form %d has %d bytes", form, len(content))
	}
	return nil
}

// join completes a short value by the response. Without the response, which may have
// been evicted, the record is not replayable. A response of another attempt is left
// over: a version before, or an operator, has removed the short value alone.
func (s *stored) join(response []byte) error {
	if len(response) == 0 {
		s.lose()
		return nil
	}
	found, err := decode(response)
	if err == nil {
		s.adopt(found)
	}
	return err
}

// joinBeginning joins the beginning of a response. It returns false when the
// beginning is too short.
func (s *stored) joinBeginning(response []byte) (enough bool, err error) {
	if len(response) == 0 {
		s.lose()
		return true, nil
	}
	found, enough, err := decodeBeginning(response)
	if enough && err == nil {
		s.adopt(found)
	}
	return enough, err
}

// adopt takes the response over, if it is of the same attempt.
func (s *stored) adopt(response stored) {
	r := &response.record
	if response.apart || response.token != s.token || r.Attempt != s.record.Attempt || r.State != s.record.State {
		s.lose()
		return
	}
	s.record, s.retain, s.age = response.record, response.retain, response.age
}

func (s *stored) lose() { s.lost, s.record.State = true, storage.Unreplayable }

// bury turns the record into its tombstone.
func (s *stored) bury() {
	r := &s.record
	s.record = storage.Record{State: storage.Expired, Fingerprint: r.Fingerprint, Digest: r.Digest, Attempt: r.Attempt, Status: r.Status}
	s.lost = false
}

// lifetime is the time to live of a record, in milliseconds.
func lifetime(retain, remember time.Duration) int64 {
	return milliseconds(retain) + milliseconds(remember)
}

// responseKey returns the name of a response with a key of its own. Like all names it
// begins with the prefix, so that a user's rights cover it, and it has the slot of
// the key itself. It returns false when braces in the prefix make that impossible.
func (s *Store) responseKey(key string) (name string, possible bool) {
	full := s.prefix + key
	switch {
	case hasHashTag(full):
		return full + responseSuffix, true
	case strings.ContainsAny(full, "{}"):
		return full, false
	default:
		return s.prefix + "{" + full + "}" + responseSuffix, true
	}
}

// isResponse reports whether a name that begins with the prefix is a responseKey.
func (s *Store) isResponse(name string) bool {
	full, is := strings.CutSuffix(name, responseSuffix)
	if !is || hasHashTag(s.prefix) {
		return is
	}
	tag, is := strings.CutPrefix(full, s.prefix+"{"+s.prefix)
	return is && strings.HasSuffix(tag, "}")
}

// hasHashTag reports whether a part of the name alone decides its slot.
func hasHashTag(name string) bool {
	_, tag, found := strings.Cut(name, "{")
	return found && strings.IndexByte(tag, '}') > 0
}
