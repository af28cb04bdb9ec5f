package redisstore

import (
	"encoding/hex"

	"github.com/oncekey/oncekey/core/storage"
)

// digest is a storage.Digest, written in a line as 32 hex digits. Versions before
// digests can read the line, because readers skip unknown members. A line without a
// digest has the zero digest.
type digest storage.Digest

func (d digest) appendTo(b []byte) []byte { return hex.AppendEncode(b, d[:]) }

// parseDigest reads a digest in the form of appendTo, and returns false for any other
// text.
func parseDigest(text string) (d digest, ok bool) {
	if len(text) != hex.EncodedLen(len(d)) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(text))
	return d, err == nil
}
