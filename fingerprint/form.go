package fingerprint

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// form leaves a query or a form-encoded body in the draft, its pairs sorted by
// name and the excluded ones left out.
func (b *builder) form(source []byte) {
	// A pair takes four bytes more than its spelling: what kind its two
	// components are of, and how long they are.
	pairs := bytes.Count(source, []byte{'&'}) + 1
	b.draft.text = slices.Grow(b.draft.text, len(source)+4*pairs)
	b.draft.open = slices.Grow(b.draft.open, pairs)
	group := b.draft.begin()
	for len(source) > 0 {
		var pair []byte
		pair, source, _ = bytes.Cut(source, []byte{'&'})
		if len(pair) > 0 {
			b.pair(group, pair)
		}
	}
	b.draft.end(group)
}

func (b *builder) pair(group opening, pair []byte) {
	name, value, _ := bytes.Cut(pair, []byte{'='})
	decoded, wellFormed := b.decode(name)
	if wellFormed && b.matcher.field(decoded) {
		return
	}
	b.draft.member(group)
	b.draft.text = appendComponent(b.draft.text, decoded, wellFormed)
	b.draft.named()
	decoded, wellFormed = b.decode(value)
	b.draft.text = appendComponent(b.draft.text, decoded, wellFormed)
	b.draft.finish()
}

// appendComponent appends a name or value so that one that could not be decoded
// differs from every one that could.
func appendComponent(dst, component []byte, wellFormed bool) []byte {
	if wellFormed {
		dst = append(dst, 'd')
	} else {
		dst = append(dst, 'r')
	}
	return appendFrame(dst, component)
}

// appendFrame appends a part of a part: its length and itself.
func appendFrame[T string | []byte](dst []byte, part T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	return append(dst, part...)
}

// decode undoes form encoding. What has a malformed escape in it is returned as
// it is spelled. The result is valid until the next call.
func (b *builder) decode(spelled []byte) (decoded []byte, wellFormed bool) {
	if bytes.IndexByte(spelled, '%') < 0 && bytes.IndexByte(spelled, '+') < 0 {
		return spelled, true
	}
	b.decoded = b.decoded[:0]
	for at := 0; at < len(spelled); at++ {
		char := spelled[at]
		switch char {
		case '+':
			char = ' '
		case '%':
			if at+2 >= len(spelled) || !isHexadecimal(spelled[at+1]) || !isHexadecimal(spelled[at+2]) {
				return spelled, false
			}
			char = digit(spelled[at+1])<<4 | digit(spelled[at+2])
			at += 2
		}
		b.decoded = append(b.decoded, char)
	}
	return b.decoded, true
}
