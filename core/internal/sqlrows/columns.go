package sqlrows

import (
	"encoding/hex"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// hashPrefix begins a fingerprint of package fingerprint. A hash in hex follows.
const hashPrefix = "sha256:"

// packed is the first byte of a fingerprint that is kept as its hash alone. No text in
// UTF-8 begins with it.
const packed = 0xff

func packFingerprint(fingerprint string) []byte {
	const size = 32
	if digits, is := strings.CutPrefix(fingerprint, hashPrefix); is && len(digits) == 2*size && digits == strings.ToLower(digits) {
		hash := make([]byte, 1+size)
		hash[0] = packed
		if _, err := hex.Decode(hash[1:], []byte(digits)); err == nil {
			return hash
		}
	}
	return []byte(fingerprint)
}

func unpackFingerprint(kept []byte) string {
	if len(kept) > 0 && kept[0] == packed {
		return hashPrefix + hex.EncodeToString(kept[1:])
	}
	return string(kept)
}

// encodeHeader encodes a header as JSON, or as null for no fields.
func encodeHeader(header storage.Header) any {
	if encoded := records.HeaderJSON(header); encoded != nil {
		return string(encoded)
	}
	return nil
}

func decodeHeader(encoded string) (storage.Header, error) {
	if encoded == "" {
		return nil, nil
	}
	if !gjson.Valid(encoded) { // the column is a text
		return nil, records.Corrupt("its header is %s", records.Excerpt(encoded))
	}
	header, err := records.ParseHeader(encoded)
	if err != nil {
		return nil, records.Corrupt("its %v", err)
	}
	return header, nil
}
