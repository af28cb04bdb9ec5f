package fingerprint

// names is a set of names in lower case. The zero value is empty.
type names struct {
	set     map[string]struct{}
	lengths uint64 // bit n: there is a name of n bytes; bit 63: of 63 or more
}

func (n *names) add(name string) {
	if n.set == nil {
		n.set = make(map[string]struct{})
	}
	n.set[name] = struct{}{}
	n.lengths |= lengthBit(len(name))
}

func lengthBit(length int) uint64 { return 1 << min(length, 63) }

// segment is one step of a path.
type segment struct {
	name  string // in lower case; canonical spelling
	any   bool   // a star: name and index do not matter
	index int    // the array index that name spells, or -1
}

// lengths returns the lengthBits of the names that s leads to.
func (s *segment) lengths() uint64 {
	if s.any {
		return ^uint64(0)
	}
	return lengthBit(len(s.name))
}

// noIndex is the index of a member of an object.
const noIndex = -2

func (s *segment) matches(name []byte, index int) bool {
	return s.any || s.index == index || index == noIndex && equalFold(s.name, name)
}

// matcher decides what is excluded. The walker asks it step by step on its way
// through a document. It is not safe for concurrent use.
type matcher struct {
	exclusion *Exclusion
	alive     []int  // indexes of paths; a stack of scopes
	folded    []byte // a name in lower case
}

// scope is a place in a document, as the paths see it: the paths
// alive[from:to] match every step that led there, depth steps in number.
type scope struct{ from, to, depth int }

// empty reports whether no path leads further from here. Then nothing is on the
// stack above from, and the scope serves for all that is inside of the place too.
func (s scope) empty() bool { return s.from == s.to }

var nothing Exclusion

func (m *matcher) use(x *Exclusion) {
	if x == nil {
		x = &nothing
	}
	m.exclusion = x
}

func (m *matcher) reset() {
	m.exclusion = nil
	empty(&m.folded)
}

// root returns the scope of a document's root.
func (m *matcher) root() scope {
	m.alive = m.alive[:0]
	for i := range m.exclusion.paths {
		m.alive = append(m.alive, i)
	}
	return scope{to: len(m.alive)}
}

// field reports whether the form field of this decoded name is excluded.
func (m *matcher) field(name []byte) bool {
	return m.has(&m.exclusion.fields, name)
}

// member reports whether a member of an object is excluded, and otherwise
// returns the scope of its value, which leave must end. The name is in its
// canonical spelling, without quotation marks.
func (m *matcher) member(object scope, name []byte) (inner scope, excluded bool) {
	if m.has(&m.exclusion.members, name) {
		return scope{}, true
	}
	if object.empty() {
		return object, false
	}
	if m.exclusion.steps[object.depth]&lengthBit(len(name)) == 0 {
		return m.nowhere(), false
	}
	return m.step(object, name, noIndex)
}

// element is like member, for an element of an array.
func (m *matcher) element(array scope, index int) (inner scope, excluded bool) {
	if array.empty() {
		return array, false
	}
	return m.step(array, nil, index)
}

// step goes from a place to one inside of it, of that name or at that index.
func (m *matcher) step(outer scope, name []byte, index int) (inner scope, excluded bool) {
	inner = scope{from: len(m.alive), depth: outer.depth + 1}
	for i := outer.from; i < outer.to; i++ {
		path := m.exclusion.paths[m.alive[i]]
		if !path[outer.depth].matches(name, index) {
			continue
		}
		if len(path) == inner.depth {
			m.leave(inner)
			return scope{}, true
		}
		m.alive = append(m.alive, m.alive[i])
	}
	inner.to = len(m.alive)
	return inner, false
}

// nowhere returns a scope from which no path leads further.
func (m *matcher) nowhere() scope { return scope{from: len(m.alive), to: len(m.alive)} }

// leave ends a scope, the one that member or element returned last.
func (m *matcher) leave(inner scope) { m.alive = m.alive[:inner.from] }

func (m *matcher) has(n *names, name []byte) bool {
	if n.lengths&lengthBit(len(name)) == 0 {
		return false
	}
	m.folded = m.folded[:0]
	for _, char := range name {
		m.folded = append(m.folded, lower(char))
	}
	_, found := n.set[string(m.folded)]
	return found
}

// equalFold reports whether folded, which is in lower case, is name in any case.
func equalFold(folded string, name []byte) bool {
	if len(folded) != len(name) {
		return false
	}
	for i, char := range name {
		if lower(char) != folded[i] {
			return false
		}
	}
	return true
}

// lower folds ASCII only: any more would depend on a version of Unicode.
func lower(char byte) byte {
	if 'A' <= char && char <= 'Z' {
		return char + ('a' - 'A')
	}
	return char
}
