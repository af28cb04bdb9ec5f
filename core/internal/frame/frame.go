// Package frame hashes a list of strings. It is a package of its own because core/storage,
// core/event, the engine and core/sealedstore must hash alike, and the contract has no
// public hash.
package frame

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Sum returns the SHA-256 of parts, each preceded by a length, so that "a:b"+"c" and
// "a"+"b:c" have different sums.
func Sum(parts ...string) [sha256.Size]byte {
	framed := make([]byte, 0, 512)
	for _, part := range parts {
		framed = binary.BigEndian.AppendUint64(framed, uint64(len(part)))
		framed = append(framed, part...)
	}
	return sha256.Sum256(framed)
}

// ShortSize is the length of a short hash.
const ShortSize = 16

// AppendShort appends the short hash of a text, in hex digits, to b: the first bytes of
// its Sum. Log lines and records name a key by its short hash.
func AppendShort(b []byte, sum *[sha256.Size]byte) []byte {
	return hex.AppendEncode(b, sum[:ShortSize/2])
}

// Unshown returns the bytes of a text's Sum that its short hash does not show.
func Unshown(sum *[sha256.Size]byte) *[sha256.Size - ShortSize/2]byte {
	return (*[sha256.Size - ShortSize/2]byte)(sum[ShortSize/2:])
}
