package sqlrows

import (
	"crypto/sha256"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// packed is the first byte of a fingerprint that is kept as its hash alone. No text in
// UTF-8 begins with it.
const packed = 0xff

func packFingerprint(fingerprint string) []byte {
	if hash, is := records.RawFingerprint(fingerprint); is {
		return append([]byte{packed}, hash[:]...)
	}
	return []byte(fingerprint)
}

func unpackFingerprint(kept []byte) string {
	if len(kept) == 1+sha256.Size && kept[0] == packed {
		return records.SpellFingerprint((*[sha256.Size]byte)(kept[1:]))
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
