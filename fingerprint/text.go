package fingerprint

import (
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// string copies the string at source[at] in its canonical spelling, between
// quotation marks:
//
//   - A quotation mark and a backslash are escaped by a backslash.
//   - Any other character stands for itself, including control characters.
//   - Bytes that are not UTF-8 stay unchanged. The result is unambiguous, because
//     decoded escapes are whole characters, and a lone surrogate stays an escape.
//   - A lone surrogate is \u and four lower-case digits. No other backslash
//     stands before a u.
//
// Two strings have one spelling if and only if their values are equal.
func (w *walker) string(at, out int) (end, written int) {
	source, text := w.source, w.text
	text[out] = '"'
	at++
	out++
	for at < len(source) {
		if at+wordSize <= len(source) {
			word := wordAt(source, at)
			putWord(text, out, word)                         // may write too much, within the capacity
			plain := bits.TrailingZeros64(special(word)) / 8 // 0 has 64 trailing zeros
			at += plain
			out += plain
			if plain == wordSize {
				continue
			}
		}
		switch char := source[at]; {
		case char == '"':
			text[out] = '"'
			return at + 1, out + 1
		case char == '\\' || char < ' ':
			if at, out = w.escape(at, out); at == malformed {
				return malformed, out
			}
		default: // behind the last whole word
			text[out] = char
			at++
			out++
		}
	}
	return malformed, out
}

// escape copies the character that the escape at source[at] stands for. A bare
// control character is malformed.
func (w *walker) escape(at, out int) (end, written int) {
	if w.source[at] != '\\' || at+1 == len(w.source) {
		return malformed, out
	}
	escaped := w.source[at+1]
	if escaped == 'u' {
		return w.codePoint(at, out)
	}
	char := escapes[escaped]
	if char == 0 {
		return malformed, out
	}
	return at + 2, w.putEscaped(rune(char), out)
}

var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/',
	'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// putEscaped copies the character that an escape stands for.
func (w *walker) putEscaped(char rune, out int) (written int) {
	if char == '"' || char == '\\' {
		w.text[out] = '\\'
		out++
	}
	return len(utf8.AppendRune(w.text[:out], char))
}

// codePoint copies the character of a \u escape, or of a pair of \u escapes.
func (w *walker) codePoint(at, out int) (end, written int) {
	char, end := hexadecimal(w.source, at+2), at+6
	if char < 0 {
		return malformed, out
	}
	if !utf16.IsSurrogate(char) {
		return end, w.putEscaped(char, out)
	}
	low := rune(-1)
	if end+2 <= len(w.source) && w.source[end] == '\\' && w.source[end+1] == 'u' {
		low = hexadecimal(w.source, end+2)
	}
	pair := utf16.DecodeRune(char, low)
	if pair == utf8.RuneError { // a lone surrogate: no pair encodes U+FFFD
		const digits = "0123456789abcdef"
		return end, out + copy(w.text[out:], []byte{'\\', 'u', digits[char>>12], digits[char>>8&15], digits[char>>4&15], digits[char&15]})
	}
	return end + 6, w.putEscaped(pair, out)
}

// literal copies true, false or null.
func (w *walker) literal(at, out int, spelled string) (end, written int) {
	end = at + len(spelled)
	if end > len(w.source) || string(w.source[at:end]) != spelled {
		return malformed, out
	}
	return end, out + copy(w.text[out:], spelled)
}
