package fingerprint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Exclusion is a compiled set of fields that do not count. It is immutable and
// safe for concurrent use; nil and the zero value exclude nothing.
type Exclusion struct {
	fields  names       // as a form spells them, decoded
	members names       // the same, in the canonical spelling of JSON strings
	paths   [][]segment // of two segments or more
	steps   []uint64    // by depth: the lengthBits of the names there; all of them for a star
}

// Exclude compiles fields, each either a name or a path. Letters count the same
// in upper and lower case throughout, as long as they are ASCII.
//
// A name ("timestamp") excludes every member of that name, at any depth of a
// JSON document, and every query parameter, form field and multipart part of
// that name.
//
// A path ("meta.trace.id") excludes what it leads to from the root of a JSON
// document, and nothing else. The segment * leads to any member or element
// ("items.*.nonce"); a number leads to the element at that index, counted from
// 0, as well as to the member of that name ("items.0.nonce").
//
// A backslash takes the meaning from a dot, a star and a backslash: `a\.b` is a
// name with a dot in it. A star must be escaped wherever it is no segment of its
// own.
//
// The error is for whoever wrote the field: it names the field and says what
// would be right.
func Exclude(fields ...string) (*Exclusion, error) {
	x := &Exclusion{}
	for _, field := range fields {
		path, err := parseField(field)
		if err != nil {
			return nil, fmt.Errorf("fingerprint: cannot exclude %q: %w", field, err)
		}
		if len(path) > 1 {
			x.paths = append(x.paths, path)
			continue
		}
		x.fields.add(path[0].name)
		x.members.add(spelling.Replace(path[0].name))
	}
	for _, path := range x.paths {
		for i := range path {
			path[i].name = spelling.Replace(path[i].name)
			if i == len(x.steps) {
				x.steps = append(x.steps, 0)
			}
			x.steps[i] |= path[i].lengths()
		}
	}
	return x, nil
}

// spelling turns a name into its canonical spelling, like walker.string.
var spelling = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

var (
	errEmptyField   = errors.New("it is empty; give a member's name or a path such as meta.trace.id")
	errEmptySegment = errors.New(`a path needs a name on both sides of every dot; write \. for a dot that is part of a name`)
	errTrailing     = errors.New(`it ends in a backslash; for a backslash that is part of a name write \\`)
	errEscape       = errors.New(`a backslash may stand before a dot, a star or a backslash only; for a backslash that is part of a name write \\`)
	errStarInside   = errors.New(`a star stands for a whole segment, as in items.*.nonce; for a star that is part of a name write \*`)
	errEverything   = errors.New(`it would exclude everything; name what to exclude, or give a path such as meta.*; for a member named * write \*`)
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

// parseSegment parses what stands before the first dot of path; more tells
// whether there was one.
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

// parseIndex returns the array index that name spells, or noIndex. A sign or a
// leading zero makes a number a name only.
func parseIndex(name string) int {
	index, err := strconv.Atoi(name)
	if err != nil || index < 0 || strconv.Itoa(index) != name {
		return noIndex
	}
	return index
}
