// Package frame hashes several strings as one.
package frame

import (
	"crypto/sha256"
	"encoding/binary"
)

// Sum is the SHA-256 of parts, each after its length, so that "a:b"+"c" and
// "a"+"b:c" have two sums.
func Sum(parts ...string) [sha256.Size]byte {
	framed := make([]byte, 0, 512)
	for _, part := range parts {
		framed = binary.BigEndian.AppendUint64(framed, uint64(len(part)))
		framed = append(framed, part...)
	}
	return sha256.Sum256(framed)
}
