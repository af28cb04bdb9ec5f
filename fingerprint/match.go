package fingerprint

// matcher decides which members and elements are excluded. The walker calls it step
// by step on the way through a document. It is not safe for concurrent use.
type matcher struct {
	exclusion *Exclusion
	folded    []byte  // one name at a time
	hits      int     // of the fields that alone count
	alive     []int   // a stack of indexes of paths
	places    []place // a stack, by scope
}

// scope is a place in a document: an index into matcher.places.
type scope int

// nowhere is the scope of every place that no path passes through.
const nowhere scope = 0

// place holds the paths whose first depth segments match the steps to that place:
// matcher.alive[from:to]. Where only some fields count, it also holds the number of hits
// before it.
type place struct{ from, to, depth, hits int }

func (m *matcher) use(x *Exclusion) {
	if x == nil {
		x = &emptyExclusion
	}
	m.exclusion = x
}

func (m *matcher) reset() {
	m.exclusion = nil
	empty(&m.folded)
}

// foldable returns a member's name, in canonical spelling, for a comparison: folded
// unless it is plain. The result is valid until the next call.
func (m *matcher) foldable(name []byte) []byte {
	if isPlain(name) {
		return name
	}
	m.folded = appendFolded(m.folded[:0], name)
	return m.folded
}

// hasField reports whether the bare names have the decoded name of a form's field.
func (m *matcher) hasField(name []byte) bool {
	if m.exclusion.names.taken == 0 {
		return false
	}
	if !isPlain(name) {
		m.folded = appendFoldedText(m.folded[:0], name)
		name = m.folded
	}
	return m.exclusion.names.has(name)
}

// root returns the scope of a document's root.
func (m *matcher) root() scope {
	if len(m.exclusion.paths) == 0 && !m.exclusion.only {
		return nowhere
	}
	m.alive, m.places = m.alive[:0], append(m.places[:0], place{})
	for i := range m.exclusion.paths {
		m.alive = append(m.alive, i)
	}
	return m.enter(place{to: len(m.alive)})
}

func (m *matcher) enter(p place) scope {
	p.hits = m.hits
	m.places = append(m.places, p)
	return scope(len(m.places) - 1)
}

// looksAt reports whether a member of an object may be excluded, or may hold such a one.
func (m *matcher) looksAt(object scope, name []byte) bool {
	return object != nowhere || m.exclusion.names.mayHave(name)
}

// member reports whether a member of an object is excluded. If not, it returns the
// scope of the value, which leave must end. The name is in canonical spelling, without
// quotation marks.
func (m *matcher) member(object scope, name []byte) (inner scope, excluded bool) {
	if m.exclusion.only && object == nowhere {
		return nowhere, false // within a value that counts
	}
	name = m.foldable(name)
	if m.exclusion.names.has(name) {
		return m.match()
	}
	if object == nowhere {
		return nowhere, false
	}
	return m.step(object, name, noIndex)
}

// element does the same as member for an element of an array.
func (m *matcher) element(array scope, index int) (inner scope, excluded bool) {
	if array == nowhere {
		return nowhere, false
	}
	return m.step(array, nil, index)
}

// step goes from a place to its member of that name or its element at that index.
func (m *matcher) step(from scope, name []byte, index int) (inner scope, excluded bool) {
	outer := m.places[from]
	here := place{from: len(m.alive), depth: outer.depth + 1}
	for i := outer.from; i < outer.to; i++ {
		path := m.exclusion.paths[m.alive[i]]
		if !path[outer.depth].matches(name, index) {
			continue
		}
		if len(path) == here.depth {
			m.alive = m.alive[:here.from]
			return m.match()
		}
		m.alive = append(m.alive, m.alive[i])
	}
	if here.to = len(m.alive); here.to == here.from {
		return m.pass(from)
	}
	return m.enter(here), false
}

// match ends a path. Its value is excluded, or counts as a whole.
func (m *matcher) match() (inner scope, excluded bool) {
	if m.exclusion.only {
		m.hits++
	}
	return nowhere, !m.exclusion.only
}

// pass goes to a value that no path passes through. Where only some fields count, there
// may be bare names inside.
func (m *matcher) pass(outer scope) (inner scope, excluded bool) {
	if !m.exclusion.only {
		return nowhere, false
	}
	return m.enter(place{from: len(m.alive), to: len(m.alive), depth: m.places[outer].depth + 1}), false
}

// skips reports whether a form's field is left out.
func (m *matcher) skips(named bool) bool {
	if !m.exclusion.only {
		return named
	}
	if named {
		m.hits++
	}
	return !named
}

// leave ends the scope that member or element returned last. It returns false where only
// some fields count and the value has none of them.
func (m *matcher) leave(inner scope) (counts bool) {
	left := m.places[inner]
	m.alive, m.places = m.alive[:left.from], m.places[:inner]
	return !m.exclusion.only || m.hits > left.hits
}
