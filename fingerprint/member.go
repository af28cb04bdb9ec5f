package fingerprint

import (
	"errors"
	"fmt"
	"slices"
)

// Member is a compiled path to one member of a JSON document. It is immutable and safe
// for concurrent use.
type Member struct {
	at      *Exclusion
	parents []*Exclusion // the members around it, outermost first
}

// The errors of Member.Find.
var (
	ErrNoMember       = errors.New("fingerprint: the document has no such member")
	ErrRepeatedMember = errors.New("fingerprint: the document has the member more than once")
)

var errSeveralMembers = errors.New(`a star would match several members; for a star that is part of a name write \*`)

// ParseMember compiles a path in the notation of [Exclude]. A bare name is a member of
// the document's root, and a star is not allowed. Names match as in Exclude. The
// error names the expected form.
func ParseMember(path string) (*Member, error) {
	segments, err := parseField(path)
	if err == nil && slices.ContainsFunc(segments, func(s segment) bool { return s.any }) {
		err = errSeveralMembers
	}
	if err != nil {
		return nil, fmt.Errorf("fingerprint: no member is at %q: %w", path, err)
	}
	m := &Member{at: &Exclusion{most: 2}} // a second one is refused
	m.at.addPath(segments)
	for i := 1; i < len(segments); i++ {
		parent := &Exclusion{most: 2}
		parent.addPath(segments[:i])
		m.parents = append(m.parents, parent)
	}
	return m, nil
}

// Find returns the member's value as it is written in the JSON document. The error is
// ErrNoMember, also for a document that is not valid JSON, or ErrRepeatedMember, also
// where a member around it is repeated. Parsers disagree about the value of a repeated
// member.
func (m *Member) Find(document []byte) (value []byte, err error) {
	found, err := findExcluded(document, m.at)
	switch {
	case err != nil, len(found) == 0:
		return nil, ErrNoMember
	case len(found) > 1:
		return nil, ErrRepeatedMember
	}
	for _, parent := range m.parents {
		if around, err := findExcluded(document, parent); err != nil || len(around) > 1 {
			return nil, ErrRepeatedMember
		}
	}
	return document[found[0].value:found[0].valueEnd], nil
}
