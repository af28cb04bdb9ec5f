package fingerprint

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
)

// maxDepth is how deep a JSON document may be nested.
const maxDepth = 512

var (
	errNotJSON = errors.New("the document is not valid JSON")
	errTooDeep = fmt.Errorf("the document is nested deeper than %d levels", maxDepth)
)

// validate returns an error unless source can be walked. Depth comes first:
// gjson recurses, and a megabyte of brackets would overflow its stack.
func validate(source []byte) error {
	if tooDeep(source) {
		return errTooDeep
	}
	if !gjson.ValidBytes(source) {
		return errNotJSON
	}
	return nil
}

// tooDeep reports whether source, which need not be JSON, is nested too deep. It
// is right about the longest beginning that can be JSON, and gjson sees no more.
func tooDeep(source []byte) bool {
	if bytes.Count(source, []byte("["))+bytes.Count(source, []byte("{")) <= maxDepth {
		return false
	}
	depth := 0
	for at := 0; at < len(source); at++ {
		switch structure[source[at]] {
		case opens:
			if depth++; depth > maxDepth {
				return true
			}
		case closes:
			depth--
		case quotes:
			at = stringEnd(source, at) - 1
		}
	}
	return false
}

// json leaves the canonical form of source, which is valid, in the draft.
//
// It is JSON again, and says the same: no white space, members sorted by name,
// strings in the spelling of appendString, all else as in source.
func (b *builder) json(source []byte) {
	w := walker{source: source, draft: &b.draft, matcher: &b.matcher}
	w.walk()
}

// walker goes through a valid document once and leaves its canonical form in a
// draft. It recurses, as deep as maxDepth.
type walker struct {
	source  []byte
	at      int // offset in source of what comes next
	draft   *draft
	matcher *matcher
	removed func(removal) // told of every value that is excluded; may be nil
}

// removal is where an excluded member or element lies in the source.
type removal struct {
	start, end int // what to cut out, with one of the commas beside it
	value      int // the value alone begins here and ends at valueEnd
	valueEnd   int
}

func (w *walker) walk() {
	// The canonical form is never longer than the document.
	w.draft.text = slices.Grow(w.draft.text, len(w.source))
	w.skipSpace()
	w.value(w.matcher.root())
}

func (w *walker) value(place scope) {
	switch w.source[w.at] {
	case '{':
		w.object(place)
	case '[':
		w.array(place)
	case '"':
		w.string()
	default:
		start := w.at
		w.at = literalEnd(w.source, start)
		w.draft.text = append(w.draft.text, w.source[start:w.at]...)
	}
}

func (w *walker) object(place scope) {
	w.open()
	group := w.draft.begin()
	previous := w.at // where the member before ended
	for w.source[w.at] != '}' {
		start := w.at
		w.draft.member(group)
		w.string()
		name := w.draft.named()
		w.skipSpace()
		w.at++ // the colon
		w.skipSpace()
		if inner, excluded := w.matcher.member(place, name[1:len(name)-1]); excluded {
			w.draft.abandon(group)
			previous = w.drop(start, previous, w.draft.members(group) > 0)
		} else {
			w.draft.text = append(w.draft.text, ':')
			w.value(inner)
			w.matcher.leave(inner)
			w.draft.finish()
			previous = w.at
			w.next()
		}
	}
	w.draft.end(group)
	w.close()
}

func (w *walker) array(place scope) {
	w.open()
	kept := 0
	previous := w.at
	for index := 0; w.source[w.at] != ']'; index++ {
		if inner, excluded := w.matcher.element(place, index); excluded {
			previous = w.drop(w.at, previous, kept > 0)
		} else {
			if kept > 0 {
				w.draft.text = append(w.draft.text, ',')
			}
			w.value(inner)
			w.matcher.leave(inner)
			kept++
			previous = w.at
			w.next()
		}
	}
	w.close()
}

// open copies an opening bracket and goes to what comes first behind it.
func (w *walker) open() {
	w.draft.text = append(w.draft.text, w.source[w.at])
	w.at++
	w.skipSpace()
}

// close copies a closing bracket.
func (w *walker) close() {
	w.draft.text = append(w.draft.text, w.source[w.at])
	w.at++
}

// next goes behind the comma, or to the closing bracket if there is none.
func (w *walker) next() {
	w.skipSpace()
	if w.source[w.at] == ',' {
		w.at++
		w.skipSpace()
	}
}

func (w *walker) skipSpace() {
	for w.at < len(w.source) && w.source[w.at] <= ' ' {
		w.at++
	}
}

// drop passes over an excluded value, of the member or element that begins at
// start, and returns where it ended; previous is where the sibling before ended,
// and afterKept tells whether any of the siblings before is kept.
func (w *walker) drop(start, previous int, afterKept bool) int {
	r := removal{start: start, value: w.at, valueEnd: valueEnd(w.source, w.at)}
	w.at = r.valueEnd
	w.next()
	if w.removed == nil {
		return r.valueEnd
	}
	r.end = w.at // with the comma behind
	if afterKept {
		r.start, r.end = previous, r.valueEnd // with the comma before
	}
	w.removed(r)
	return r.valueEnd
}
