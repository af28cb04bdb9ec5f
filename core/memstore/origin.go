package memstore

import (
	"encoding/binary"

	"github.com/oncekey/oncekey/core/storage"
)

// appendOrigin writes an origin with its length: each text after its own length.
func appendOrigin(b []byte, o *storage.Origin) []byte {
	texts := [...]string{o.Route, o.Holder, o.KeyHash, o.Trace, o.Program}
	size := 0
	for _, text := range texts {
		size += uvarintSize(len(text)) + len(text)
	}
	b = binary.AppendUvarint(b, uint64(size))
	for _, text := range texts {
		b = appendText(b, text)
	}
	return b
}

// originOf reads the texts that appendOrigin wrote. They point into the entry.
func originOf(b []byte) storage.Origin {
	r := reader{b, 0}
	next := func() string { return text(r.take(r.length())) }
	return storage.Origin{Route: next(), Holder: next(), KeyHash: next(), Trace: next(), Program: next()}
}
