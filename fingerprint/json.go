package fingerprint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// maxDepth is how deep a JSON document may be nested.
const maxDepth = 512

var (
	errNotJSON = errors.New("the document is not valid JSON")
	errTooDeep = fmt.Errorf("the document is nested deeper than %d levels", maxDepth)
	errTooLong = fmt.Errorf("the document is longer than %d MiB", maxCanonical>>20)
)

// json appends the canonical form of source to the draft, its members not yet
// arranged. If source is not JSON, or nested too deep, it returns an error and
// leaves anything behind.
//
// The canonical form is JSON again, and says the same: no white space, members
// sorted by name, strings in the spelling of walker.string, all else as in source.
func (b *builder) json(source []byte) error {
	w := walker{source: source, draft: &b.draft, matcher: &b.matcher}
	return w.walk()
}

// walker goes through a document once: it validates as RFC 8259 does, and appends
// the canonical form to a draft. It recurses, as deep as maxDepth.
//
// Its methods take the offset in source where what they are for begins, and
// return where that ended, or malformed.
type walker struct {
	source    []byte
	text      []byte // the draft's, with room for what is to come
	out       int    // offset in text of what comes next
	depth     int
	draft     *draft
	matcher   *matcher
	recording bool      // whether to gather removals
	removals  []removal // what is excluded, in order
}

const malformed = -1

// removal is where an excluded member or element lies in the source.
type removal struct {
	start, end int // what to cut out, with one of the commas beside it
	value      int // the value alone begins here and ends at valueEnd
	valueEnd   int
}

func (w *walker) walk() error {
	d := w.draft
	w.out = len(d.text)
	// The canonical form is never longer than the document; strings are copied in
	// whole words.
	d.text = slices.Grow(d.text, len(w.source)+wordSize)
	d.text = d.text[:cap(d.text)]
	w.text = d.text
	end := w.value(0, w.matcher.root())
	d.text = d.text[:w.out]
	switch {
	case w.depth > maxDepth:
		return errTooDeep
	case end == malformed || w.skipSpace(end) < len(w.source):
		return errNotJSON
	}
	return nil
}

// next returns the first character from at on that is no white space, and where
// it is; 0, which belongs nowhere outside of a string, at the end of the document.
func (w *walker) next(at int) (found int, char byte) {
	if at < len(w.source) && w.source[at] > ' ' {
		return at, w.source[at]
	}
	at = w.skipSpace(at)
	if at == len(w.source) {
		return at, 0
	}
	return at, w.source[at]
}

func (w *walker) skipSpace(at int) int {
	for at < len(w.source) && (w.source[at] == ' ' || w.source[at] == '\n' || w.source[at] == '\t' || w.source[at] == '\r') {
		at++
	}
	return at
}

func (w *walker) put(char byte) {
	w.text[w.out] = char
	w.out++
}

func (w *walker) value(at int, place scope) (end int) {
	at, first := w.next(at)
	switch first {
	case '"':
		end, w.out = w.string(at, w.out)
		return end
	case '{':
		return w.object(at, place)
	case '[':
		return w.array(at, place)
	case 't':
		return w.literal(at, "true")
	case 'f':
		return w.literal(at, "false")
	case 'n':
		return w.literal(at, "null")
	default:
		return w.number(at)
	}
}

func (w *walker) object(at int, place scope) (end int) {
	if w.depth++; w.depth > maxDepth {
		return malformed
	}
	w.put('{')
	group := w.draft.begin(w.out)
	previous := at
	at, char := w.next(at + 1)
	for char == '"' {
		if previous = w.member(at, previous, place, &group); previous == malformed {
			return malformed
		}
		if at, char = w.next(previous); char != ',' {
			break
		}
		if at, char = w.next(at + 1); char != '"' {
			return malformed
		}
	}
	if char != '}' {
		return malformed
	}
	w.draft.end(group, w.out)
	w.put('}')
	w.depth--
	return at + 1
}

// member goes through a member of an object; the one before ended at previous.
func (w *walker) member(at, previous int, place scope, group *opening) (end int) {
	before := w.out
	start, kept := before, before > group.start
	if kept {
		w.text[start] = ','
		start++
	}
	nameEnd, named := w.string(at, start)
	if nameEnd == malformed {
		return malformed
	}
	colon, char := w.next(nameEnd)
	if char != ':' {
		return malformed
	}
	inner, excluded := w.matcher.member(place, w.text[start+1:named-1])
	if excluded {
		w.out = before
		return w.remove(at, colon+1, previous, kept)
	}
	w.text[named] = ':'
	w.out = named + 1
	if end = w.value(colon+1, inner); end == malformed {
		return malformed
	}
	w.matcher.leave(inner)
	w.draft.add(group, w.key(start+1, named), start, named, w.out)
	return end
}

// key returns a number that orders names as their first bytes do. The name, with
// the quotation mark behind it, is text[start:end].
func (w *walker) key(start, end int) uint64 {
	key := binary.BigEndian.Uint64(w.text[start:])
	if length := end - start; length < wordSize {
		key &^= ^uint64(0) >> (8 * length)
	}
	return key
}

func (w *walker) array(at int, place scope) (end int) {
	if w.depth++; w.depth > maxDepth {
		return malformed
	}
	w.put('[')
	start, previous := w.out, at
	at, char := w.next(at + 1)
	for index := 0; char != ']'; index++ {
		if previous = w.element(at, previous, place, index, w.out > start); previous == malformed {
			return malformed
		}
		if at, char = w.next(previous); char == ']' {
			break
		}
		if char != ',' {
			return malformed
		}
		if at, char = w.next(at + 1); char == ']' {
			return malformed
		}
	}
	w.put(']')
	w.depth--
	return at + 1
}

// element goes through an element of an array; the one before ended at previous,
// and kept tells whether any before was kept.
func (w *walker) element(at, previous int, place scope, index int, kept bool) (end int) {
	inner, excluded := w.matcher.element(place, index)
	if excluded {
		return w.remove(at, at, previous, kept)
	}
	if kept {
		w.put(',')
	}
	end = w.value(at, inner)
	w.matcher.leave(inner)
	return end
}

// remove goes through the value of an excluded member or element, which begins at
// start, and takes back what it left. The sibling before ended at previous;
// afterKept tells whether any of the siblings before is kept.
func (w *walker) remove(start, value, previous int, afterKept bool) (end int) {
	out, groups, removals := w.out, len(w.draft.groups), len(w.removals)
	if end = w.value(value, w.matcher.nowhere()); end == malformed {
		return malformed
	}
	w.out = out
	w.draft.groups = w.draft.groups[:groups]
	if !w.recording {
		return end
	}
	r := removal{start: start, value: w.skipSpace(value), valueEnd: end}
	if afterKept {
		r.start, r.end = previous, end // with the comma before
	} else {
		next, char := w.next(end)
		if char == ',' {
			next = w.skipSpace(next + 1)
		}
		r.end = next // with the comma behind
	}
	w.removals = append(w.removals[:removals], r)
	return end
}
