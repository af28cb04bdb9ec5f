package redisstore

import (
	"encoding/hex"

	"github.com/oncekey/oncekey/core/storage"
)

// digest is a storage.Digest that stands in a line as 32 hex digits. A version before
// digests reads such a line all the same, because unknown members are
// passed by; and a line without one has the zero digest.
type digest storage.Digest

func (d digest) appendTo(b []byte) []byte { return hex.AppendEncode(b, d[:]) }

// parseDigest reads a digest as appendTo writes it, and reports false for anything
// else.
func parseDigest(text string) (d digest, ok bool) {
	if len(text) != hex.EncodedLen(len(d)) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(text))
	return d, err == nil
}
