package fingerprint

import (
	"encoding/binary"
	"math/bits"
)

// sipHash is a resumable SipHash-1-3 (Aumasson and Bernstein, 2012): sum returns the
// hash of the absorbed text, and more text can be absorbed later. The survey hashes a
// path step by step and then the value, so that a deep document costs no more than a
// flat document.
//
// The sum after one absorb is the standard SipHash-1-3. Hash tables use this variant.
// No key-recovery attack is known, and a sketch shows only 24 bits of each sum.
type sipHash struct{ v0, v1, v2, v3 uint64 }

func sipHashOf(key [16]byte) sipHash {
	low, high := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	return sipHash{low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d, low ^ 0x6c7967656e657261, high ^ 0x7465646279746573}
}

// Each mark is XORed into v2, a word that absorbed text never reaches directly. A
// name, an index and a value with equal bytes therefore hash differently (domain
// separation).
const (
	nameMark  = 0xee // the name of a member follows
	indexMark = 0xdd // the index of an element
	textMark  = 0xcc // a value that is a string, without its quotation marks
	valueMark = 0xbb // any other value
	sumMark   = 0xff
)

// absorb absorbs text[from:to] and its length. The text must have wordSize bytes
// before from, because the last word is read backwards from to.
func (s sipHash) absorb(text []byte, from, to int) sipHash {
	return s.absorbEnd(text, from, to, to-from)
}

// absorbEnd absorbs text[from:to], the end of a text, and the length of the whole text.
func (s sipHash) absorbEnd(text []byte, from, to, length int) sipHash {
	left := to - from
	for ; left >= wordSize; left -= wordSize {
		word := wordAt(text, to-left)
		s.v3 ^= word // absorbWord is too large to be inlined here
		s = s.round()
		s.v0 ^= word
	}
	word := wordAt(text, to-wordSize)>>(8*(wordSize-left)) | uint64(length)<<56
	s.v3 ^= word
	s = s.round()
	s.v0 ^= word
	return s
}

// absorbString absorbs a string in canonical spelling that begins at text[from], after
// its opening quotation mark. It also returns the offset of the closing mark.
func (s sipHash) absorbString(text []byte, from int) (absorbed sipHash, quotation int) {
	for start := from; ; from += wordSize {
		word := wordAt(text, from)
		found := delimiters(word) &^ word & highBits
		if found == 0 {
			s.v3 ^= word // absorbWord is too large to be inlined here
			s = s.round()
			s.v0 ^= word
			continue
		}
		left := bits.TrailingZeros64(found) / 8
		quotation = from + left
		if text[quotation] != '"' { // an escape: take the slow way
			quotation = stringEnd(text, quotation)
			return s.absorbEnd(text, from, quotation, quotation-start), quotation
		}
		return s.absorbWord(word&(1<<(8*left)-1) | uint64(quotation-start)<<56), quotation
	}
}

func (s sipHash) absorbWord(word uint64) sipHash {
	s.v3 ^= word
	s = s.round()
	s.v0 ^= word
	return s
}

// sipWriter absorbs text that comes in pieces, as absorb does at once. The zero value
// of all fields but hash is ready for use.
type sipWriter struct {
	hash   sipHash
	word   [wordSize]byte // begins with the bytes of an incomplete word
	length int
}

func (w *sipWriter) Write(p []byte) (int, error) {
	n := len(p)
	if filled := w.length % wordSize; filled > 0 {
		taken := copy(w.word[filled:], p)
		w.length += taken
		if p = p[taken:]; filled+taken < wordSize {
			return n, nil
		}
		w.hash = w.hash.absorbWord(wordAt(w.word[:], 0))
	}
	for ; len(p) >= wordSize; p = p[wordSize:] {
		w.hash = w.hash.absorbWord(wordAt(p, 0))
		w.length += wordSize
	}
	w.length += copy(w.word[:], p)
	return n, nil
}

// end returns the hash of the text and its length.
func (w *sipWriter) end() sipHash {
	left := w.length % wordSize
	last := wordAt(w.word[:], 0) & (1<<(8*left) - 1)
	return w.hash.absorbWord(last | uint64(w.length)<<56)
}

// then adds the mark of the next text.
func (s sipHash) then(mark uint64) sipHash {
	s.v2 ^= mark
	return s
}

// sum returns the hash of the absorbed text.
func (s sipHash) sum() uint64 {
	s = s.then(sumMark).round().round().round()
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

func (s sipHash) round() sipHash {
	s.v0 += s.v1
	s.v2 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 = bits.RotateLeft64(s.v0, 32) + s.v3
	s.v2 += s.v1
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
	return s
}
