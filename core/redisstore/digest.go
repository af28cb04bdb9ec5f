package redisstore

import (
	"encoding/hex"
	"fmt"

	"github.com/oncekey/oncekey/core/storage"
)

// digest is a storage.Digest that stands in a line as 32 hex digits. A version before
// digests reads such a line all the same, because encoding/json passes unknown
// members by; and a line without one has the zero digest.
type digest storage.Digest //nolint:recvcheck // encoding/json reads by pointer, and writes by value

func (d digest) appendTo(b []byte) []byte { return hex.AppendEncode(b, d[:]) }

// read reads a digest as appendTo writes it, and reports false for anything else.
func (d *digest) read(text string) bool {
	if len(text) != hex.EncodedLen(len(d)) {
		return false
	}
	_, err := hex.Decode(d[:], []byte(text))
	return err == nil
}

// MarshalText implements encoding.TextMarshaler, for encoding/json.
func (d digest) MarshalText() ([]byte, error) { return d.appendTo(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for encoding/json.
func (d *digest) UnmarshalText(text []byte) error {
	if !d.read(string(text)) {
		return fmt.Errorf("its digest is %s", excerpt(string(text)))
	}
	return nil
}
