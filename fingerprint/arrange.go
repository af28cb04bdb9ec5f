package fingerprint

import (
	"cmp"
	"io"
	"slices"
)

// maxArranged is the longest text in bytes that arrange copies. Longer text stays in
// input order, and is sorted while it is hashed: a second copy of a large body would take
// more memory than a request may (see the package's section about limits).
const maxArranged = 128 << 10

// arrange sorts the members of all groups in text[from:].
func (d *draft) arrange(from int) {
	if len(d.groups) == 0 {
		return
	}
	to := len(d.text)
	sorted := sorter{buffer: slices.Grow(append(d.spare[:0], d.text[:from]...), to-from+slack)}
	d.putSorted(&sorted, uint32(from), uint32(to), uint32(len(d.groups)))
	d.text, d.spare = sorted.buffer, d.text
	d.settled, d.groups = d.settled[:0], d.groups[:0]
}

// writeSorted writes text[from:to] with its members sorted. Only the first groups of
// d.groups can lie in the text.
func (d *draft) writeSorted(to io.Writer, text span, groups int) {
	const chunk = 16 << 10
	d.sorter = sorter{buffer: slices.Grow(d.spare[:0], chunk), to: to}
	d.putSorted(&d.sorter, text.from, text.to, uint32(groups))
	d.sorter.flush()
	d.spare, d.sorter = d.sorter.buffer, sorter{}
}

// groupsBefore returns the number of groups that end before an offset into the text.
func (d *draft) groupsBefore(offset uint32) int {
	count, _ := slices.BinarySearchFunc(d.groups, offset, func(g group, offset uint32) int { return cmp.Compare(g.end, offset) })
	return count
}

// putSorted puts the sorted text[from:to]. The recursion is as deep as the groups are
// nested.
func (d *draft) putSorted(s *sorter, from, to, groups uint32) {
	first := uint32(0) // one more than the index of a group, or 0
	for groups > 0 && d.groups[groups-1].start >= from {
		g := &d.groups[groups-1]
		g.next, first, groups = first, groups, g.before
	}
	for first > 0 {
		g := &d.groups[first-1]
		s.put(d.text[from:g.start])
		for i, m := range d.settled[g.from:g.to] {
			if i > 0 {
				s.put(comma)
			}
			d.putSorted(s, m.name.from, m.end, m.groups)
		}
		from, first = g.end, g.next
	}
	s.put(d.text[from:to])
}

var comma = []byte{','}
