package fingerprint

import (
	"bufio"
	"io"
)

// writeSorted writes text[from:to] with its members sorted. Only the first groups of
// d.groups can lie in the text.
func (d *draft) writeSorted(to io.Writer, text span, groups int) {
	if d.pieces == nil {
		d.pieces = bufio.NewWriterSize(nil, 16<<10)
	}
	d.pieces.Reset(to)
	d.putSorted(d.pieces, text.from, text.to, uint32(groups))
	_ = d.pieces.Flush() // a hash returns no errors
	d.pieces.Reset(nil)
}

// putSorted puts the sorted text[from:to]. The recursion is as deep as the groups are
// nested.
func (d *draft) putSorted(w *bufio.Writer, from, to, groups uint32) {
	first := uint32(0) // one more than the index of a group, or 0
	for groups > 0 && d.groups[groups-1].start >= from {
		g := &d.groups[groups-1]
		g.next, first, groups = first, groups, g.before
	}
	for first > 0 {
		g := &d.groups[first-1]
		_, _ = w.Write(d.text[from:g.start])
		for i, m := range d.settled[g.from:g.to] {
			if i > 0 {
				_ = w.WriteByte(',')
			}
			d.putSorted(w, m.name.from, m.end, m.groups)
		}
		from, first = g.end, g.next
	}
	_, _ = w.Write(d.text[from:to])
}
