package fingerprint

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// span is a part of a buffer.
type span struct{ from, to uint32 }

// appendFrame appends the length of a part and the part. The length keeps parts
// apart.
func appendFrame[T string | []byte](dst []byte, part T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	return append(dst, part...)
}

// frameAt returns the part that appendFrame appended at an offset, and the part's end.
func frameAt(text []byte, at int) (part span, end int) {
	length, size := binary.Uvarint(text[at:])
	end = at + size + int(length)
	return span{uint32(at + size), uint32(end)}, end
}

// room returns text with room for n more bytes. Unlike slices.Grow it adds no further
// capacity, which would be as much as a quarter of a large body.
func room(text []byte, n int) []byte {
	if cap(text)-len(text) >= n {
		return text
	}
	return append(slices.Grow([]byte(nil), len(text)+n), text...)
}

// maxPooled is the largest pooled buffer in bytes: enough for bodies of a megabyte.
// The garbage collector drops unused buffers from the pool.
const maxPooled = 4 << 20

// empty empties buffer and drops memory above maxPooled. Memory that stays allocated
// makes no garbage.
func empty[T any](buffer *[]T) {
	if uintptr(cap(*buffer))*unsafe.Sizeof(*new(T)) > maxPooled {
		*buffer = nil
		return
	}
	*buffer = (*buffer)[:0]
}
