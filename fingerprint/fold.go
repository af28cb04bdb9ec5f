package fingerprint

import (
	"cmp"
	"math/bits"
	"sync"
	"unicode"
	"unicode/utf8"
)

// encoding/json ignores case when it matches members with fields, and the last of
// several matching members wins. The order of such members is therefore part of a
// request. Members are sorted by folded name, and members of one folded name keep
// their order. Names fold as in encoding/json: each lone surrogate and each byte that
// is not UTF-8 becomes U+FFFD, then unicode.SimpleFold applies. The names that a policy
// gives match by the same folds, so that they match the members that a handler decodes.

// isPlain reports whether a name folds byte by byte.
func isPlain(name []byte) bool {
	at := 0
	for ; at+wordSize <= len(name); at += wordSize {
		if !isPlainWord(wordAt(name, at)) {
			return false
		}
	}
	for ; at < len(name); at++ {
		if name[at] >= utf8.RuneSelf || name[at] == '\\' {
			return false
		}
	}
	return true
}

// folded returns the folded character at name[at] and the offset of the next
// character.
func folded(name []byte, at int) (char rune, next int) {
	if first := name[at]; first < utf8.RuneSelf {
		switch {
		case first != '\\':
			return rune(lower(first)), at + 1
		case name[at+1] == 'u': // a lone surrogate: four digits follow
			return utf8.RuneError, at + 6
		default: // a quotation mark or a backslash follows
			return rune(name[at+1]), at + 2
		}
	}
	char, size := utf8.DecodeRune(name[at:])
	return foldRune(char), at + size
}

func appendFolded(dst, name []byte) []byte {
	for at := 0; at < len(name); {
		var char rune
		char, at = folded(name, at)
		dst = utf8.AppendRune(dst, char)
	}
	return dst
}

// appendFoldedText is appendFolded for text without escapes.
func appendFoldedText(dst, text []byte) []byte {
	for _, char := range string(text) {
		dst = utf8.AppendRune(dst, foldRune(char))
	}
	return dst
}

// foldedKey returns the beginning of a folded name as a number.
func foldedKey(name []byte) (key uint64) {
	var buffer [wordSize + utf8.UTFMax]byte
	beginning := buffer[:0]
	for at := 0; at < len(name) && len(beginning) < wordSize; {
		var char rune
		char, at = folded(name, at)
		beginning = utf8.AppendRune(beginning, char)
	}
	return bits.ReverseBytes64(wordAt(buffer[:], 0))
}

// compareFolded compares two folded names.
func compareFolded(a, b []byte) int {
	for i, j := 0, 0; ; {
		if i+wordSize <= len(a) && j+wordSize <= len(b) {
			one, other := wordAt(a, i), wordAt(b, j)
			if isPlainWord(one|other) && isPlainWord(one) && isPlainWord(other) {
				if one, other = foldWord(one), foldWord(other); one != other {
					return cmp.Compare(bits.ReverseBytes64(one), bits.ReverseBytes64(other))
				}
				i, j = i+wordSize, j+wordSize
				continue
			}
		}
		if i == len(a) || j == len(b) {
			return cmp.Compare(len(a)-i, len(b)-j)
		}
		var one, other rune
		one, i = folded(a, i)
		other, j = folded(b, j)
		if one != other {
			return cmp.Compare(one, other)
		}
	}
}

// foldRune returns the common representative of all runes that differ from char only
// in case.
func foldRune(char rune) rune {
	table := foldTable()
	if page := char >> foldBits; int(page) < len(table) && table[page] != nil {
		return table[page][char&(1<<foldBits-1)]
	}
	return char
}

const foldBits = 8

// foldTable has the folded runes of all pages with runes that fold: not all of these have
// an upper or a lower case. Calls of unicode.SimpleFold for each rune of a name would take
// twenty times as long.
var foldTable = sync.OnceValue(func() []*[1 << foldBits]rune {
	last := rune(unicode.CaseRanges[len(unicode.CaseRanges)-1].Hi)
	table := make([]*[1 << foldBits]rune, last>>foldBits+1)
	for char := range last + 1 {
		if unicode.SimpleFold(char) == char {
			continue
		}
		page := &table[char>>foldBits]
		if *page == nil {
			*page = new([1 << foldBits]rune)
			for i := range *page {
				(*page)[i] = char&^(1<<foldBits-1) + rune(i)
			}
		}
		(*page)[char&(1<<foldBits-1)] = smallestFold(char)
	}
	return table
})

// smallestFold returns the smallest rune that char folds to. An ASCII result is in
// lower case.
func smallestFold(char rune) rune {
	for {
		next := unicode.SimpleFold(char)
		if next <= char {
			if next < utf8.RuneSelf {
				next = rune(lower(byte(next)))
			}
			return next
		}
		char = next
	}
}

// equalFold reports whether a folded name is equal to the fold of another that is folded
// or plain.
func equalFold(one string, other []byte) bool {
	if len(one) != len(other) {
		return false
	}
	if one == string(other) { // the usual case
		return true
	}
	for i, char := range other {
		if lower(char) != one[i] {
			return false
		}
	}
	return true
}
