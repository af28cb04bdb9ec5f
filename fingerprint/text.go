package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// string copies the string at source[at] in its canonical spelling, between
// quotation marks:
//
//   - A quotation mark and a backslash are escaped by a backslash.
//   - Any other character stands for itself, control characters included.
//   - Bytes that are not UTF-8 stay as they are. That is unambiguous: what comes
//     from an escape is whole characters, and a lone surrogate stays an escape.
//   - A lone surrogate is \u and four lower-case digits. No other backslash
//     stands before a u.
//
// Two strings of the same value, and no others, are spelled alike. Unlike its
// siblings it takes what is written of text, and returns it, which is quicker.
func (w *walker) string(at, out int) (end, written int) {
	source, text := w.source, w.text
	text[out] = '"'
	at++
	out++
	for at+wordSize <= len(source) {
		word := binary.LittleEndian.Uint64(source[at:])
		binary.LittleEndian.PutUint64(text[out:], word) // too much, but there is room
		found := special(word)
		if found == 0 {
			at += wordSize
			out += wordSize
			continue
		}
		plain := bits.TrailingZeros64(found) &^ 7 // bits
		at += plain / 8
		out += plain / 8
		if byte(word>>plain) == '"' {
			return at + 1, out + 1
		}
		w.out = out
		if at = w.escape(at); at == malformed {
			return malformed, w.out
		}
		out = w.out
	}
	w.out = out
	end = w.lastString(at)
	return end, w.out
}

// lastString is string from the middle of one that reaches into the last word of
// the document.
func (w *walker) lastString(at int) (end int) {
	for at < len(w.source) {
		switch char := w.source[at]; {
		case char == '"':
			w.put('"')
			return at + 1
		case char == '\\' || char < ' ':
			if at = w.escape(at); at == malformed {
				return malformed
			}
		default:
			w.put(char)
			at++
		}
	}
	return malformed
}

// escape copies what the escape at source[at] stands for. A control character
// that is there instead is malformed.
func (w *walker) escape(at int) (end int) {
	if w.source[at] != '\\' || at+1 == len(w.source) {
		return malformed
	}
	escaped := w.source[at+1]
	if escaped == 'u' {
		return w.codePoint(at)
	}
	char := escapes[escaped]
	if char == 0 {
		return malformed
	}
	w.putEscaped(rune(char))
	return at + 2
}

var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/',
	'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// putEscaped copies the character that an escape stands for.
func (w *walker) putEscaped(char rune) {
	if char == '"' || char == '\\' {
		w.put('\\')
	}
	w.out = len(utf8.AppendRune(w.text[:w.out], char))
}

// codePoint is escape, for \u and four digits, or a pair of those.
func (w *walker) codePoint(at int) (end int) {
	char, end := hexadecimal(w.source, at+2), at+6
	if char < 0 {
		return malformed
	}
	if !utf16.IsSurrogate(char) {
		w.putEscaped(char)
		return end
	}
	low := rune(-1)
	if end+2 <= len(w.source) && w.source[end] == '\\' && w.source[end+1] == 'u' {
		low = hexadecimal(w.source, end+2)
	}
	pair := utf16.DecodeRune(char, low)
	if pair == utf8.RuneError { // which no pair stands for
		const digits = "0123456789abcdef"
		w.out += copy(w.text[w.out:], []byte{'\\', 'u', digits[char>>12], digits[char>>8&15], digits[char>>4&15], digits[char&15]})
		return end
	}
	w.putEscaped(pair)
	return end + 6
}

// hexadecimal returns the value of the four digits at source[at], or -1.
func hexadecimal(source []byte, at int) rune {
	if at+4 > len(source) {
		return -1
	}
	var value rune
	for _, char := range source[at : at+4] {
		if !isHexadecimal(char) {
			return -1
		}
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

// literal copies true, false or null.
func (w *walker) literal(at int, spelled string) (end int) {
	end = at + len(spelled)
	if end > len(w.source) || string(w.source[at:end]) != spelled {
		return malformed
	}
	w.out += copy(w.text[w.out:], spelled)
	return end
}

// number copies a number as it is spelled.
func (w *walker) number(at int) (end int) {
	end = numberEnd(w.source, at)
	switch {
	case end == malformed:
		return malformed
	case end-at <= wordSize && at+wordSize <= len(w.source): // too much, but there is room
		binary.LittleEndian.PutUint64(w.text[w.out:], binary.LittleEndian.Uint64(w.source[at:]))
	default:
		copy(w.text[w.out:], w.source[at:end])
	}
	w.out += end - at
	return end
}

// numberEnd returns where the number at source[at] ends.
func numberEnd(source []byte, at int) (end int) {
	if at < len(source) && source[at] == '-' {
		at++
	}
	end = digitsEnd(source, at)
	if end == malformed || end > at+1 && source[at] == '0' {
		return malformed
	}
	if end < len(source) && source[end] == '.' {
		if end = digitsEnd(source, end+1); end == malformed {
			return malformed
		}
	}
	if end < len(source) && lower(source[end]) == 'e' {
		return digitsEnd(source, signEnd(source, end+1))
	}
	return end
}

// digitsEnd returns where the digits end that begin at source[at], one at least.
func digitsEnd(source []byte, at int) (end int) {
	for end = at; end < len(source) && '0' <= source[end] && source[end] <= '9'; {
		end++
	}
	if end == at {
		return malformed
	}
	return end
}

// signEnd goes behind a sign, if there is one.
func signEnd(source []byte, at int) (end int) {
	if at < len(source) && (source[at] == '+' || source[at] == '-') {
		return at + 1
	}
	return at
}

// A word is as many bytes as are looked at together.
const (
	wordSize  = 8
	everyByte = 0x0101010101010101
	highBits  = everyByte * 0x80
)

// special marks bytes of word that a string cannot hold as they are: quotation
// marks, backslashes and control characters. The lowest bit that is set is the
// high bit of the first of them; above that there may be others.
func special(word uint64) uint64 {
	quotation, backslash := word^everyByte*'"', word^everyByte*'\\'
	return ((quotation-everyByte)&^quotation | (backslash-everyByte)&^backslash | (word-everyByte*' ')&^word) & highBits
}
