package fingerprint

// tagger tags the leaves of a JSON document while the walker writes the canonical text,
// so that the usual sketch needs no survey. The tags are the survey's, in the order of the
// input. The tagger gives up where a document has more leaves than a sketch, or is nested
// deeper than places: only the survey finds a depth at which the members fit. A nil tagger
// tags nothing.
type tagger struct {
	places [maxTagged]sipHash // of the open containers and of the current value, by depth
	leaves sketcher
	gaveUp bool
}

// maxTagged is above the depth of the values that are tagged.
const maxTagged = 16

// begin begins a document, whose root is at depth 1.
func (t *tagger) begin(key [16]byte) {
	t.places[1] = rootOf(key, kindJSON)
	t.leaves.count, t.gaveUp = 0, false
}

// hasAll reports whether all leaves are tagged.
func (t *tagger) hasAll() bool { return t != nil && !t.gaveUp }

// name goes to the value of the member of an object at a depth. The member's name is
// text[from:to].
func (t *tagger) name(text []byte, from, to, depth int) {
	if t.hasAll() {
		t.enterName(text, from, to, depth)
	}
}

func (t *tagger) enterName(text []byte, from, to, depth int) {
	t.enter(t.places[depth%maxTagged].then(nameMark).absorb(text, from, to), depth)
}

// index goes to the element of an array at a depth.
func (t *tagger) index(index, depth int) {
	if t.hasAll() {
		t.enterIndex(index, depth)
	}
}

func (t *tagger) enterIndex(index, depth int) {
	t.enter(t.places[depth%maxTagged].then(indexMark).absorbWord(uint64(index)), depth)
}

// enter goes to a value at that place in a container at a depth.
func (t *tagger) enter(place sipHash, depth int) {
	if t.gaveUp = depth+1 >= maxTagged; !t.gaveUp {
		t.places[depth+1] = place
	}
}

// value tags the value text[from:to] to which name or index went, if it is a leaf.
func (t *tagger) value(text []byte, from, to, depth int) {
	if t.hasAll() {
		t.gaveUp = !t.leaf(text, from, to, depth)
	}
}

func (t *tagger) leaf(text []byte, from, to, depth int) (more bool) {
	place := t.places[depth+1]
	switch first := text[from]; {
	case first == '"':
		return t.leaves.member(tagsOf(place, place.then(textMark).absorb(text, from+1, to-1)))
	case (first == '{' || first == '[') && to-from > 2:
		return true
	default:
		return t.leaves.member(tagsOf(place, place.then(valueMark).absorb(text, from, to)))
	}
}
