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
// counts them: url.ParseQuery, and so a handler, reads none of them. A text that no encoder of
// forms makes is one pair, as spelled: curl -d sends JSON so, and its handler reads + as a plus.
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
	text := bytes.TrimLeft(source, " \t\r\n")
	if b.spelled = bytes.ContainsAny(text[:min(1, len(text))], `{["<`); b.spelled {
		b.pair(&group, source, nil)
		source = nil
	}
	for len(source) > 0 {
		var pair []byte
		pair, source, _ = bytes.Cut(source, []byte{'&'})
		if name, value, _ := bytes.Cut(pair, []byte{'='}); len(pair) > 0 {
			b.pair(&group, name, value)
		}
	}
	b.draft.text = slices.Grow(b.draft.text, slack)
	b.draft.end(&group, len(b.draft.text))
	return true
}

func (b *builder) pair(group *opening, name, value []byte) {
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
	kind := byte('r')
	if wellFormed {
		kind = 'd'
	}
	return appendFrame(append(dst, kind), component)
}

// decode undoes form encoding. It returns a component with a malformed escape or a
// semicolon as spelled: net/url reads neither. The result is valid until the next call.
func (b *builder) decode(spelled []byte) (decoded []byte, wellFormed bool) {
	if b.spelled || !bytes.ContainsAny(spelled, "%+;") {
		return spelled, true
	}
	b.decoded = b.decoded[:0]
	for at := 0; at < len(spelled); at++ {
		char := [1]byte{spelled[at]}
		switch char[0] {
		case '+':
			char[0] = ' '
		case ';':
			return spelled, false
		case '%':
			if n, err := hex.Decode(char[:], spelled[at+1:min(at+3, len(spelled))]); n == 0 || err != nil {
				return spelled, false
			}
			at += 2
		}
		b.decoded = append(b.decoded, char[0])
	}
	return b.decoded, true
}
