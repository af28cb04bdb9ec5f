package fingerprint

import (
	"bytes"
	"cmp"
	"slices"
)

// draft holds canonical text whose members (of a JSON object, of a form) stand
// in the order of the input, and knows in which order they belong. Nothing moves
// until the text goes to the sink, so that every byte is copied once however
// deep it lies: moving members whenever their object ends would copy the
// innermost once for each level around it. The zero value is ready for use.
type draft struct {
	text    []byte
	open    []member // of the groups that have not ended, innermost last
	settled []member // of the groups that have ended and need reordering, in order
	groups  []group  // by start
}

// member is a part of the text that is sorted among its siblings.
type member struct {
	start, nameEnd, end uint32 // offsets into text; the name comes first
	within              uint32 // index of the first group that can lie in the member
}

// group is a run of members separated by commas. One that ended in order, but
// has to be kept because a group inside of it did not, has no members.
type group struct {
	start, end uint32 // offsets into text
	from, to   uint32 // indexes into settled
	after      uint32 // index of the first group that can lie behind this one
}

// opening remembers where a group began.
type opening struct{ members, group int }

// begin starts a group at the end of the text.
func (d *draft) begin() opening {
	o := opening{members: len(d.open), group: len(d.groups)}
	d.groups = append(d.groups, group{start: uint32(len(d.text))})
	return o
}

// members returns how many members the group has so far.
func (d *draft) members(o opening) int { return len(d.open) - o.members }

// member starts a member of the group, behind a comma unless it is the first.
// The caller appends its name, calls named, appends the rest and calls finish.
func (d *draft) member(o opening) {
	if d.members(o) > 0 {
		d.text = append(d.text, ',')
	}
	d.open = append(d.open, member{start: uint32(len(d.text)), within: uint32(len(d.groups))})
}

// named ends the name of the member that was started last, and returns it.
func (d *draft) named() []byte {
	m := &d.open[len(d.open)-1]
	m.nameEnd = uint32(len(d.text))
	return d.text[m.start:]
}

// abandon takes back the member that was started last.
func (d *draft) abandon(o opening) {
	last := len(d.open) - 1
	d.text = d.text[:d.open[last].start]
	d.open = d.open[:last]
	if d.members(o) > 0 {
		d.text = d.text[:len(d.text)-1]
	}
}

// finish ends the member that was started last.
func (d *draft) finish() {
	d.open[len(d.open)-1].end = uint32(len(d.text))
}

// end ends the group at the end of the text and finds the order of its members.
func (d *draft) end(o opening) {
	members := d.open[o.members:]
	d.open = d.open[:o.members]
	if d.ordered(members) {
		if o.group == len(d.groups)-1 {
			d.groups = d.groups[:o.group]
		}
		return
	}
	d.sort(members)
	g := &d.groups[o.group]
	g.end = uint32(len(d.text))
	g.from = uint32(len(d.settled))
	if o.members == 0 && len(d.settled) == 0 {
		d.open, d.settled = d.settled, members // swapped, to spare a flat document the copy
	} else {
		d.settled = append(d.settled, members...)
	}
	g.to = uint32(len(d.settled))
	g.after = uint32(len(d.groups))
}

func (d *draft) ordered(members []member) bool {
	for i := 1; i < len(members); i++ {
		if d.compare(&members[i-1], &members[i]) > 0 {
			return false
		}
	}
	return true
}

// sort puts members in order, those of one name as they came.
func (d *draft) sort(members []member) {
	const few = 12
	if len(members) > few {
		// slices.SortFunc is O(n log n), as slices.SortStableFunc is not; the
		// positions break ties, which makes the outcome stable.
		slices.SortFunc(members, func(a, b member) int {
			return cmp.Or(d.compare(&a, &b), cmp.Compare(a.start, b.start))
		})
		return
	}
	for i := 1; i < len(members); i++ {
		inserted, at := members[i], i
		for ; at > 0 && d.compare(&inserted, &members[at-1]) < 0; at-- {
			members[at] = members[at-1]
		}
		members[at] = inserted
	}
}

// compare orders members by the canonical spelling of their names. Equal
// spellings are equal names, so any other order would do as well.
func (d *draft) compare(a, b *member) int {
	return bytes.Compare(d.text[a.start:a.nameEnd], d.text[b.start:b.nameEnd])
}

// frameTo gives the text to the sink as one part, its members in order.
func (d *draft) frameTo(s *sink) {
	s.frameLength(len(d.text))
	d.write(s, 0, uint32(len(d.text)), 0)
}

// write gives text[from:to] to the sink; next is the index of the first group
// that can lie in it. It recurses as deep as the groups are nested.
func (d *draft) write(s *sink, from, to, next uint32) {
	for int(next) < len(d.groups) && d.groups[next].start < to {
		g := &d.groups[next]
		if g.from == g.to {
			next++
			continue
		}
		s.write(d.text[from:g.start])
		for i, m := range d.settled[g.from:g.to] {
			if i > 0 {
				s.write(comma)
			}
			d.write(s, m.start, m.end, m.within)
		}
		from, next = g.end, g.after
	}
	s.write(d.text[from:to])
}

var comma = []byte{','}

func (d *draft) reset() {
	const maxMembers, maxGroups = maxPooled / 16, maxPooled / 20 // the size of each
	d.text = reusable(d.text)
	d.open, d.settled, d.groups = d.open[:0], d.settled[:0], d.groups[:0]
	if max(cap(d.open), cap(d.settled)) > maxMembers || cap(d.groups) > maxGroups {
		d.open, d.settled, d.groups = nil, nil, nil
	}
}
