package fingerprint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Exclusion is a compiled set of fields that a fingerprint leaves out, or of the only
// fields that count. It is immutable and safe for concurrent use. Nil and the zero value are empty.
type Exclusion struct {
	names names       // at any depth
	paths [][]segment // from the root
	only  bool        // the fields are those of a body that count: see Only
	most  int         // limit of the removals that are recorded, or zero
}

// Exclude compiles fields. Each field is a name or a path. Names match as encoding/json
// matches them with the fields of a struct: case does not matter, in any script, and
// "ſku" (U+017F) is "sku".
//
// A name ("timestamp") excludes every member of that name, at any depth of a
// JSON document, and every query parameter, form field and multipart part of
// that name.
//
// A path ("meta.trace.id") excludes only the member at that path from the root of a
// JSON document. A dot before it changes no path, and makes a path of a name: ".context"
// excludes only the root's member. The segment * matches any member or element
// ("items.*.nonce"). A number matches the element at that index, counted from 0, and the
// member of that name ("items.0.nonce").
//
// A backslash escapes a dot, a star or a backslash: `a\.b` is a name with a dot. A
// star inside a longer segment must be escaped.
//
// The error names the first malformed field and the expected form.
func Exclude(fields ...string) (*Exclusion, error) {
	x := &Exclusion{}
	for _, field := range fields {
		rest, rooted := strings.CutPrefix(field, ".")
		path, err := parseField(rest)
		if err != nil {
			return nil, fmt.Errorf("fingerprint: cannot exclude %q: %w", field, err)
		}
		if rooted || len(path) > 1 {
			x.addPath(path)
			continue
		}
		x.names.add(foldedName(path[0].name))
	}
	return x, nil
}

// Only compiles fields in the notation of [Exclude]. Of a JSON or form body, only these
// fields count, each with its whole value and its place. All other members and fields
// are left out, and so are elements of an array without any of the fields: the place of an
// element is its place among the others. A body without any of the fields counts as a
// whole, and so do a body of another kind and the query.
//
// The error names the first malformed field and the expected form.
func Only(fields ...string) (*Exclusion, error) {
	x, err := Exclude(fields...)
	if err != nil {
		return nil, err
	}
	x.only = len(fields) > 0
	return x, nil
}

// ofQuery returns the fields that are left out of the query.
func (x *Exclusion) ofQuery() *Exclusion {
	if x != nil && x.only {
		return nil
	}
	return x
}

// addPath adds the member at this path from the root.
func (x *Exclusion) addPath(path []segment) {
	x.paths = append(x.paths, path)
	for i := range path {
		path[i].name = foldedName(path[i].name)
	}
}

func foldedName(name string) string { return string(appendFoldedText(nil, []byte(name))) }

var (
	errEmptyField   = errors.New("the field is empty; give a member's name or a path such as meta.trace.id")
	errEmptySegment = errors.New(`a path needs a name on both sides of every dot; write \. for a dot that is part of a name`)
	errTrailing     = errors.New(`the field ends in a backslash; for a backslash that is part of a name write \\`)
	errEscape       = errors.New(`a backslash may only stand before a dot, a star or a backslash; for a backslash that is part of a name write \\`)
	errStarInside   = errors.New(`a star stands for a whole segment, as in items.*.nonce; for a star that is part of a name write \*`)
	errEverything   = errors.New(`the field would exclude all members; give a name or a path such as meta.*; for a member named * write \*`)
)

func parseField(field string) ([]segment, error) {
	if field == "" {
		return nil, errEmptyField
	}
	var path []segment
	for rest, more := field, true; more; {
		var (
			s   segment
			err error
		)
		if s, rest, more, err = parseSegment(rest); err != nil {
			return nil, err
		}
		path = append(path, s)
	}
	if len(path) == 1 && path[0].any {
		return nil, errEverything
	}
	return path, nil
}

// parseSegment parses the segment before the first dot of path. more reports whether
// path has a dot.
func parseSegment(path string) (s segment, rest string, more bool, err error) {
	var name strings.Builder
	stars, at := 0, 0
	for ; at < len(path) && path[at] != '.'; at++ {
		switch path[at] {
		case '*':
			stars++
		case '\\':
			at++
			if at == len(path) {
				return s, "", false, errTrailing
			}
			if !strings.Contains(`.*\`, path[at:at+1]) {
				return s, "", false, errEscape
			}
		}
		name.WriteByte(path[at])
	}
	switch {
	case at == 0:
		return s, "", false, errEmptySegment
	case stars > 0 && at > 1:
		return s, "", false, errStarInside
	}
	s = segment{name: name.String(), any: stars > 0, index: parseIndex(name.String())}
	if at == len(path) {
		return s, "", false, nil
	}
	return s, path[at+1:], true, nil
}

// parseIndex returns the array index that name spells, or noIndex. A number with a
// sign or a leading zero is only a name.
func parseIndex(name string) int {
	index, err := strconv.Atoi(name)
	if err != nil || index < 0 || strconv.Itoa(index) != name {
		return noIndex
	}
	return index
}

// names is a set of folded names. The zero value is empty. The walker looks up every
// member of a document, so a miss must be fast.
type names struct {
	taken   uint64 // bit n: bucket n has a name
	buckets [64][]string
}

func (n *names) add(name string) {
	bucket := bucketOf(len(name), name[0])
	n.taken |= 1 << bucket
	n.buckets[bucket] = append(n.buckets[bucket], name)
}

// bucketOf returns the bucket of names with this length and first letter, in either
// case.
func bucketOf(length int, first byte) uint {
	return (11*uint(length) + uint(first|0x20)) % 64
}

// mayHave reports whether the set may have a member's name, in canonical spelling. The
// fold of a name that is not plain may have another length and beginning.
func (n *names) mayHave(name []byte) bool {
	if n.taken == 0 || len(name) == 0 {
		return false
	}
	return n.taken>>bucketOf(len(name), name[0])&1 == 1 || !isPlain(name)
}

// has reports whether the set has a name that is folded or plain.
func (n *names) has(name []byte) bool {
	if len(name) == 0 || n.taken>>bucketOf(len(name), name[0])&1 == 0 {
		return false
	}
	for _, other := range n.buckets[bucketOf(len(name), name[0])] {
		if equalFold(other, name) {
			return true
		}
	}
	return false
}

// segment is one step of a path.
type segment struct {
	name  string // folded
	any   bool   // true for a star, which matches every name and index
	index int    // the array index that name spells, or noIndex
}

// noIndex stands for a missing index: in a segment that is not a number, and for a
// member of an object.
const noIndex = -1

func (s *segment) matches(name []byte, index int) bool {
	if index == noIndex {
		return s.any || equalFold(s.name, name)
	}
	return s.any || s.index == index
}

var emptyExclusion Exclusion
