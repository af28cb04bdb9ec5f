package fingerprint

import (
	"encoding/binary"
	"math/bits"
)

// sipHash is a SipHash-1-3 (Aumasson and Bernstein, 2012) that can be continued: the
// sum of what was absorbed so far can be taken, and more be absorbed behind. A
// path is hashed that way, step by step, so that a deep document costs no more
// than a flat one, and a value behind its path.
//
// The sum after one absorb is SipHash-1-3's own. That is the variant that hash
// tables use: no attack on it is known that finds the key, and of each sum a
// sketch shows 24 bits.
type sipHash struct{ v0, v1, v2, v3 uint64 }

func sipHashOf(key [16]byte) sipHash {
	low, high := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	return sipHash{low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d, low ^ 0x6c7967656e657261, high ^ 0x7465646279746573}
}

// What follows is set apart by these, as the sum is by sumMark. Nothing that is
// absorbed gets to where they go.
const (
	nameMark  = 0xee // the name of a member follows
	indexMark = 0xdd // the index of an element
	textMark  = 0xcc // a value that is a string, without its quotation marks
	valueMark = 0xbb // any other value
	sumMark   = 0xff
)

// absorb absorbs text[from:to] and its length. Any text has wordSize bytes before
// from, so that words can be read that reach back.
func (s sipHash) absorb(text []byte, from, to int) sipHash {
	left := to - from
	length := uint64(left) << 56
	for ; left >= wordSize; left -= wordSize {
		s = s.absorbWord(wordAt(text, to-left))
	}
	return s.absorbWord(wordAt(text, to-wordSize)>>(8*(wordSize-left)) | length)
}

// absorbString is absorb for a string in canonical spelling that begins at
// text[from], behind its quotation mark. It finds where the other one is on its way.
func (s sipHash) absorbString(text []byte, from int) (absorbed sipHash, quotation int) {
	for ; ; from += wordSize {
		word := wordAt(text, from)
		found := delimiters(word) &^ word & highBits
		if found == 0 {
			s.v3 ^= word // as absorbWord does, which is too much to be inlined here
			s = s.round()
			s.v0 ^= word
			continue
		}
		left := bits.TrailingZeros64(found) / 8
		quotation = from + left
		if text[quotation] != '"' { // from an escape on there is no hurry
			quotation = stringEnd(text, quotation)
			return s.absorb(text, from, quotation), quotation
		}
		return s.absorbWord(word&(1<<(8*left)-1) | uint64(left)<<56), quotation
	}
}

func (s sipHash) absorbWord(word uint64) sipHash {
	s.v3 ^= word
	s = s.round()
	s.v0 ^= word
	return s
}

// then sets apart what follows.
func (s sipHash) then(mark uint64) sipHash {
	s.v2 ^= mark
	return s
}

// sum returns the hash of what was absorbed.
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
