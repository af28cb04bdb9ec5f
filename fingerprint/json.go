package fingerprint

import (
	"errors"
	"fmt"
	"math/bits"
)

// maxDepth is the deepest allowed nesting of a JSON document.
const maxDepth = 512

var (
	errNotJSON = errors.New("the document is not valid JSON")
	errTooDeep = fmt.Errorf("the document is nested deeper than %d levels", maxDepth)
	errTooLong = fmt.Errorf("the document is longer than %d MiB", maxCanonical>>20)
)

// json appends the canonical form of source to the draft, with members in input order
// where they have groups. It returns an error if source is not JSON or is nested too deep; the
// draft may then end in partial text.
//
// The canonical form has equal content: no white space, members sorted by name, strings
// in the spelling of walker.string and numbers in that of walker.number, all other text as
// in source.
func (b *builder) json(source []byte) error {
	var w walker
	w.source, w.draft, w.matcher = source, &b.draft, &b.matcher
	if b.tagging {
		w.tagger = &b.tagger
		w.tagger.begin(b.tagKey)
	}
	err := w.walk()
	b.tagged = w.tagger.hasAll()
	return err
}

func (w *walker) walk() error {
	d := w.draft
	d.folds = true
	out := len(d.text)
	// The canonical form is never longer than the document.
	d.text = room(d.text, len(w.source)+slack)
	w.text = d.text[:cap(d.text)]
	end, out := w.value(0, out, w.matcher.root())
	d.text = d.text[:out]
	switch {
	case w.depth > maxDepth:
		return errTooDeep
	case end == malformed || w.skipSpace(end) < len(w.source):
		return errNotJSON
	}
	return nil
}

// next skips white space from at on and returns the next character and its offset. At
// the end of the document the character is 0, which is invalid outside strings.
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

func (w *walker) value(at, out int, place scope) (end, written int) {
	at, first := w.next(at)
	switch first {
	case '"':
		return w.string(at, out)
	case '{':
		return w.object(at, out, place)
	case '[':
		return w.array(at, out, place)
	case 't':
		return w.literal(at, out, "true")
	case 'f':
		return w.literal(at, out, "false")
	case 'n':
		return w.literal(at, out, "null")
	default:
		return w.number(at, out)
	}
}

func (w *walker) object(at, out int, place scope) (end, written int) {
	if w.depth++; w.depth > maxDepth {
		return malformed, out
	}
	w.text[out] = '{'
	out++
	group := w.draft.begin(out)
	previous := at
	at, char := w.next(at + 1)
	for char == '"' {
		if previous, out = w.member(at, out, previous, place, &group); previous == malformed {
			return malformed, out
		}
		if at, char = w.next(previous); char != ',' {
			break
		}
		if at, char = w.next(at + 1); char != '"' {
			return malformed, out
		}
	}
	if char != '}' {
		return malformed, out
	}
	w.draft.end(&group, out)
	w.text[out] = '}'
	w.depth--
	return at + 1, out + 1
}

// member goes through a member of an object. The previous member ended at previous.
func (w *walker) member(at, out, previous int, place scope, group *opening) (end, written int) {
	start, kept := out, out > group.start
	if kept {
		w.text[start] = ','
		start++
	}
	nameEnd, named := w.string(at, start)
	if nameEnd == malformed {
		return malformed, out
	}
	colon, char := w.next(nameEnd)
	if char != ':' {
		return malformed, out
	}
	inner := place
	if name := w.text[start+1 : named-1]; w.matcher.looksAt(place, name) {
		var excluded bool
		if inner, excluded = w.matcher.member(place, name); excluded {
			return w.remove(at, colon+1, previous, kept, out), out
		}
	}
	w.text[named] = ':'
	w.tagger.name(w.text, start+1, named-1, w.depth)
	if value := colon + 1; value < len(w.source) && w.source[value] == '"' {
		end, written = w.string(value, named+1)
	} else {
		end, written = w.value(value, named+1, inner)
	}
	if end == malformed {
		return malformed, out
	}
	switch {
	case inner != nowhere && !w.matcher.leave(inner):
		return end, out // no leaf in it has a tag
	case !w.recording: // else no order is needed, and to sort takes longer than all else
		w.tagger.value(w.text, named+1, written, w.depth)
		w.draft.add(group, w.key(start+1, named), start, named, written)
	}
	return end, written
}

// key returns a number that orders names, which are text[start:end-1], like the first bytes of their folds.
func (w *walker) key(start, end int) uint64 {
	word := wordAt(w.text, start)
	if length := end - start; length < wordSize {
		word &= 1<<(8*length) - 1
	}
	if !isPlainWord(word) {
		return foldedKey(w.text[start:end])
	}
	return bits.ReverseBytes64(foldWord(word))
}

func (w *walker) array(at, out int, place scope) (end, written int) {
	if w.depth++; w.depth > maxDepth {
		return malformed, out
	}
	w.text[out] = '['
	out++
	kept, previous := 0, at
	at, char := w.next(at + 1)
	for index := 0; char != ']'; index++ {
		written := out
		if previous, out = w.element(at, out, previous, place, index, kept); previous == malformed {
			return malformed, out
		}
		if out > written {
			kept++
		}
		if at, char = w.next(previous); char == ']' {
			break
		}
		if char != ',' {
			return malformed, out
		}
		if at, char = w.next(at + 1); char == ']' {
			return malformed, out
		}
	}
	w.text[out] = ']'
	w.depth--
	return at + 1, out + 1
}

// element goes through an element of an array. The previous one ended at previous; kept counts those that were kept.
func (w *walker) element(at, out, previous int, place scope, index, kept int) (end, written int) {
	inner, excluded := w.matcher.element(place, index)
	if excluded {
		return w.remove(at, at, previous, kept > 0, out), out
	}
	start := out
	if kept > 0 {
		w.text[out] = ','
		out++
	}
	w.tagger.index(kept, w.depth)
	if end, written = w.value(at, out, inner); end == malformed {
		return malformed, out
	}
	if inner != nowhere && !w.matcher.leave(inner) {
		return end, start
	}
	w.tagger.value(w.text, out, written, w.depth)
	return end, written
}

// remove goes through the value of an excluded member or element, which begins at start, and removes the
// value's groups again. The previous sibling ended at previous; afterKept: any earlier one was kept.
func (w *walker) remove(start, value, previous int, afterKept bool, out int) (end int) {
	groups, removals, tagger := len(w.draft.groups), len(w.removals), w.tagger
	w.tagger = nil
	if end, _ = w.value(value, out, nowhere); end == malformed {
		return malformed
	}
	w.tagger = tagger
	w.draft.groups = w.draft.groups[:groups]
	if most := w.matcher.exclusion.most; !w.recording || most > 0 && removals >= most {
		return end
	}
	r := removal{start: start, end: end, value: w.skipSpace(value), valueEnd: end}
	if afterKept {
		r.start = previous // with the preceding comma
	} else if next, char := w.next(end); char == ',' {
		r.end = w.skipSpace(next + 1) // with the following comma
	} else {
		r.end = next
	}
	w.removals = append(w.removals[:removals], r)
	return end
}
