package memstore

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"

	"github.com/oncekey/oncekey/core/internal/records"
)

// identity is a key in 32 bytes: the value of its 64 hex digits, see records.Unhex.
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
	id, complete := records.Unhex(key)
	if !complete {
		id = sha256.Sum256(append(s.secret[:len(s.secret):len(s.secret)], key...))
	}
	return name{id, complete, s.hash(id)}
}

// hash chooses the location of a record. It has its own seed, because a client can
// try as many keys as it likes, and could otherwise choose keys that all land in one
// location.
func (s *Store) hash(id identity) uint64 { return maphash.Bytes(s.seed, id[:]) }

func isFingerprint(fingerprint string, kept *[sha256.Size]byte) bool {
	raw, ok := records.RawFingerprint(fingerprint)
	return ok && raw == *kept
}
