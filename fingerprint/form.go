package fingerprint

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// maxPairs is the largest number of pairs that are sorted, the default limit of net/url.
// It bounds the time: a pair needs two bytes, and sorting takes longer than hashing.
const maxPairs = 10_000

// form appends a query or a form-encoded body to the draft, as a group of pairs
// without the excluded pairs. It returns false if there are too many pairs, as net/url
// counts them: url.ParseQuery, and so a handler, reads none of them.
func (b *builder) form(source []byte) bool {
	// A pair takes up to eight bytes more than its spelling: the kinds and the lengths
	// of its two components.
	pairs := bytes.Count(source, []byte{'&'}) + 1
	if pairs > maxPairs {
		return false
	}
	b.draft.text = room(b.draft.text, len(source)+8*pairs+slack)
	b.draft.open = slices.Grow(b.draft.open, pairs)
	b.draft.folds = false // parsers of forms do not fold names
	group := b.draft.begin(len(b.draft.text))
	for len(source) > 0 {
		var pair []byte
		pair, source, _ = bytes.Cut(source, []byte{'&'})
		if len(pair) > 0 {
			b.pair(&group, pair)
		}
	}
	b.draft.text = slices.Grow(b.draft.text, slack)
	b.draft.end(&group, len(b.draft.text))
	return true
}

func (b *builder) pair(group *opening, pair []byte) {
	name, value, _ := bytes.Cut(pair, []byte{'='})
	decoded, wellFormed := b.decode(name)
	if b.matcher.skips(wellFormed && b.matcher.hasField(decoded)) {
		return
	}
	d := &b.draft
	if len(d.text) > group.start {
		d.text = append(d.text, ',')
	}
	start := len(d.text)
	d.text = appendComponent(d.text, decoded, wellFormed)
	nameEnd := len(d.text)
	decoded, wellFormed = b.decode(value)
	d.text = appendComponent(d.text, decoded, wellFormed)
	d.add(group, 0, start, nameEnd, len(d.text))
}

// appendComponent appends a name or value. Its first byte separates components that
// could not be decoded from decoded components.
func appendComponent(dst, component []byte, wellFormed bool) []byte {
	if wellFormed {
		dst = append(dst, 'd')
	} else {
		dst = append(dst, 'r')
	}
	return appendFrame(dst, component)
}

// decode undoes form encoding. It returns a component with a malformed escape as
// spelled. The result is valid until the next call.
func (b *builder) decode(spelled []byte) (decoded []byte, wellFormed bool) {
	if bytes.IndexByte(spelled, '%') < 0 && bytes.IndexByte(spelled, '+') < 0 {
		return spelled, true
	}
	var decodedByte [1]byte
	b.decoded = b.decoded[:0]
	for at := 0; at < len(spelled); at++ {
		char := spelled[at]
		switch char {
		case '+':
			char = ' '
		case '%':
			if at+2 >= len(spelled) {
				return spelled, false
			}
			if _, err := hex.Decode(decodedByte[:], spelled[at+1:at+3]); err != nil {
				return spelled, false
			}
			char = decodedByte[0]
			at += 2
		}
		b.decoded = append(b.decoded, char)
	}
	return b.decoded, true
}
