package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// What a byte outside of strings does for the structure of a document.
const (
	opens  = 1 + iota // a bracket
	closes            // a bracket
	quotes            // a string
	parts             // comma or white space: a number or literal ends before it, as before closes
)

var structure = [256]byte{
	'{': opens, '[': opens, '}': closes, ']': closes, '"': quotes,
	',': parts, ' ': parts, '\t': parts, '\n': parts, '\r': parts,
}

// string copies the string at w.at in its canonical spelling.
func (w *walker) string() {
	end := special(w.source, w.at+1)
	if w.source[end] == '"' { // without escapes it is canonical
		w.draft.text = append(w.draft.text, w.source[w.at:end+1]...)
		w.at = end + 1
		return
	}
	w.draft.text, w.at = appendString(w.draft.text, w.source, w.at)
}

// appendString appends the string that begins at source[at] in its canonical
// spelling, and returns where it ended. Two strings of the same value, and no
// others, are spelled alike:
//
//   - A quotation mark and a backslash are escaped by a backslash.
//   - Any other character stands for itself, control characters included.
//   - Bytes that are not UTF-8 stay as they are. That is unambiguous: what comes
//     from an escape is whole characters, and a lone surrogate stays an escape.
//   - A lone surrogate is \u and four lower-case digits. No other backslash
//     stands before a u.
func appendString(dst, source []byte, at int) (spelled []byte, end int) {
	dst = append(dst, '"')
	at++
	for {
		stop := special(source, at)
		dst = append(dst, source[at:stop]...)
		if source[stop] == '"' {
			return append(dst, '"'), stop + 1
		}
		dst, at = appendEscape(dst, source, stop)
	}
}

// appendEscape appends what the escape at source[at] stands for, and returns
// where it ended.
func appendEscape(dst, source []byte, at int) (spelled []byte, end int) {
	escaped := source[at+1]
	if escaped == 'u' {
		return appendCodePoint(dst, source, at)
	}
	if escaped == '"' || escaped == '\\' {
		dst = append(dst, '\\')
	}
	return append(dst, escapes[escaped]), at + 2
}

var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/',
	'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

func appendCodePoint(dst, source []byte, at int) (spelled []byte, end int) {
	char, end := hexadecimal(source, at+2), at+6
	if utf16.IsSurrogate(char) {
		low := rune(-1)
		if end+6 <= len(source) && source[end] == '\\' && source[end+1] == 'u' {
			low = hexadecimal(source, end+2)
		}
		pair := utf16.DecodeRune(char, low)
		if pair == utf8.RuneError { // which no pair stands for
			const digits = "0123456789abcdef"
			return append(dst, '\\', 'u', digits[char>>12], digits[char>>8&15], digits[char>>4&15], digits[char&15]), end
		}
		return utf8.AppendRune(dst, pair), end + 6
	}
	if char == '"' || char == '\\' {
		dst = append(dst, '\\')
	}
	return utf8.AppendRune(dst, char), end
}

// hexadecimal returns the value of the four digits at source[at].
func hexadecimal(source []byte, at int) rune {
	var value rune
	for _, char := range source[at : at+4] {
		value = value<<4 | rune(digit(char))
	}
	return value
}

// digit returns the value of a hexadecimal digit.
func digit(char byte) byte {
	if char <= '9' {
		return char - '0'
	}
	return char | 0x20 - 'a' + 10
}

func isHexadecimal(char byte) bool {
	return '0' <= char && char <= '9' || 'a' <= lower(char) && lower(char) <= 'f'
}

// special returns the offset of the first quotation mark or backslash in source
// from at on, or the length of source.
func special(source []byte, at int) int {
	for ; at+8 <= len(source); at += 8 {
		word := binary.LittleEndian.Uint64(source[at:])
		if found := zeroBytes(word^everyByte*'"') | zeroBytes(word^everyByte*'\\'); found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(source) && source[at] != '"' && source[at] != '\\' {
		at++
	}
	return at
}

const everyByte = 0x0101010101010101

// zeroBytes has the highest bit set in the first byte of word that is zero, and
// in none before it.
func zeroBytes(word uint64) uint64 {
	return (word - everyByte) &^ word & (everyByte * 0x80)
}

// stringEnd returns where the string that begins at source[at] ends. If it never
// does that is the length of source, or a little more.
func stringEnd(source []byte, at int) int {
	for at = special(source, at+1); at < len(source) && source[at] == '\\'; {
		at = special(source, min(at+2, len(source)))
	}
	return at + 1
}

// literalEnd returns where the number, true, false or null at source[at] ends.
func literalEnd(source []byte, at int) int {
	for at < len(source) && structure[source[at]] == 0 {
		at++
	}
	return at
}

// valueEnd returns where the valid value at source[at] ends.
func valueEnd(source []byte, at int) int {
	switch structure[source[at]] {
	case quotes:
		return stringEnd(source, at)
	case opens:
		return bracketEnd(source, at)
	default:
		return literalEnd(source, at)
	}
}

func bracketEnd(source []byte, at int) int {
	for depth := 0; ; {
		switch structure[source[at]] {
		case quotes:
			at = stringEnd(source, at)
			continue
		case opens:
			depth++
		case closes:
			depth--
		}
		at++
		if depth == 0 {
			return at
		}
	}
}
