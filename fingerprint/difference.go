package fingerprint

import (
	"math/bits"
	"slices"
)

const (
	maxNames = 16   // limit of the names that Differences returns
	maxNamed = 1000 // limit of the changed members whose names are looked up
)

// comparer compares members with a sketch.
type comparer struct {
	survey *survey
	known  [maxMembers]tags
	count  int
	seen   uint64 // bit n: known[n] has been matched
	equal  bool   // whether to name the members that are equal, or the others
	named  int
	names  []string
	others int
}

func (c *comparer) begin(members []byte, s *survey, equal bool) {
	*c = comparer{survey: s, equal: equal}
	for chunk := range slices.Chunk(members, memberSize) {
		c.known[c.count] = readTags(chunk)
		c.count++
	}
}

func (c *comparer) end() (names []string, others, missing int) {
	names, others, missing = c.names, c.others, c.count-bits.OnesCount64(c.seen)
	slices.Sort(names)
	*c = comparer{}
	return names, others, missing
}

func (c *comparer) member(t tags) bool {
	if c.match(t) == c.equal {
		c.name()
	}
	return true
}

// match matches a member with one known entry of its place, and reports whether it is
// equal. Each entry is matched once, so that several members in one place (duplicates,
// fields of one name) match different entries.
func (c *comparer) match(t tags) (equal bool) {
	changed := -1
	for i, known := range c.known[:c.count] {
		if known.place != t.place || c.seen>>i&1 == 1 {
			continue
		}
		if known.value == t.value {
			c.seen |= 1 << i
			return true
		}
		changed = i
	}
	if changed >= 0 {
		c.seen |= 1 << changed
	}
	return false
}

func (c *comparer) name() {
	if c.named == maxNamed {
		c.others++
		return
	}
	c.named++
	name := c.survey.name()
	switch {
	case slices.Contains(c.names, name):
	case name == "", len(c.names) == maxNames && !c.equal: // a sketch bounds the equal members
		c.others++
	default:
		c.names = append(c.names, name)
	}
}
