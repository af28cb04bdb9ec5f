package fingerprint

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// draft holds the text to hash: frames and canonical text. The members of a JSON
// object or form stand in input order, and writeSorted sorts all groups at the end. Every
// byte therefore moves once at any depth, and there is no second copy of a large body.
// Sorting each object at its end would move the innermost members once per enclosing
// level. The zero value is ready for use.
type draft struct {
	text    []byte
	spare   []byte   // work space of move
	open    []member // members of open groups, innermost last
	settled []member // members of unordered groups, sorted by group
	groups  []group  // unordered groups, sorted by end
	folds   bool     // names belong to JSON members and are compared by their folds

	pieces *bufio.Writer // of writeSorted, on first use

	folded        []byte // work space of sortFolded
	foldedMembers []foldedMember
}

// member is a part of the text that is sorted among its siblings. It has few enough
// fields for the compiler to keep a member in registers.
type member struct {
	key    uint64 // first bytes of the name, folded if names fold
	name   span   // in text; the member begins with the name
	end    uint32 // offset into text
	groups uint32 // number of groups that ended before the member
}

// group is a run of members separated by commas.
type group struct {
	start, end uint32 // offsets into text
	from, to   uint32 // indexes into settled
	before     uint32 // number of groups that ended before the group began
	next       uint32 // see putSorted
}

// opening is an open group.
type opening struct {
	start, members, groups int
	last                   uint64 // key of the previous member
	unordered              bool
}

// begin starts a group at an offset into the text.
func (d *draft) begin(start int) opening {
	return opening{start: start, members: len(d.open), groups: len(d.groups)}
}

// add adds a complete member to the group.
func (d *draft) add(o *opening, key uint64, start, nameEnd, end int) {
	d.open = append(grown(d, d.open, 1, end), member{key, span{uint32(start), uint32(nameEnd)}, uint32(end), uint32(len(d.groups))})
	if key <= o.last {
		last := len(d.open) - 1
		o.unordered = o.unordered || last > o.members && d.before(&d.open[last], &d.open[last-1])
	}
	o.last = key
}

// grown returns items with room for n more, when those before have taken the text up to
// end. The text has the capacity for the whole document, so the number of items to come
// is known roughly. append would grow in small steps, and leave four times as much behind.
func grown[T any](d *draft, items []T, n, end int) []T {
	count := len(items) + n
	if count <= cap(items) {
		return items
	}
	const few, most = 16, 8
	expected := int(int64(count) * int64(cap(d.text)) / int64(end))
	size := max(min(expected+expected/16, most*count), count+count/4) + few
	return append(slices.Grow([]T(nil), size), items...)
}

// small is the largest group, in bytes, whose members are moved at once, while the
// text is in the cache. Groups inside a small group move more than once, but so
// short a text cannot nest many groups.
const small = 1 << 10

// end ends the group at an offset into the text and sorts its members.
func (d *draft) end(o *opening, end int) {
	members := d.open[o.members:]
	d.open = d.open[:o.members]
	if !o.unordered {
		return
	}
	d.sort(members)
	if end-o.start <= small {
		d.move(members, o.start, end)
		return
	}
	from := len(d.settled)
	if from+o.members == 0 { // no copy for one large object
		d.settled, d.open = members, d.settled
	} else {
		d.settled = append(grown(d, d.settled, len(members), end), members...)
	}
	d.groups = append(grown(d, d.groups, 1, end), group{
		start: uint32(o.start), end: uint32(end), from: uint32(from), to: uint32(len(d.settled)), before: uint32(o.groups),
	})
}

// slack is the number of spare bytes after the text. Short parts are copied in pieces
// of slack bytes and read in words, which may reach past the end.
const slack = 16

// move puts the members of a small group in order. All groups inside are in order.
func (d *draft) move(members []member, start, end int) {
	text := d.text[start : end+slack : cap(d.text)]
	d.spare = append(d.spare[:0], text...)
	unsorted := d.spare
	out := 0
	for i := range members {
		from, left := int(members[i].name.from)-start, int(members[i].end-members[i].name.from)
		end := out + left
		for ; out < end; out, from = out+slack, from+slack {
			*(*[slack]byte)(text[out : out+slack : out+slack]) = *(*[slack]byte)(unsorted[from : from+slack : from+slack])
		}
		out = end
		text[out] = ','
		out++
	}
}

// sort sorts members by name. Members of one name keep their order.
func (d *draft) sort(members []member) {
	if d.folds && slices.ContainsFunc(members, func(m member) bool { return !isPlain(d.nameOf(&m)) }) {
		d.sortFolded(members)
		return
	}
	const few = 12
	if len(members) > few {
		// slices.SortFunc is O(n log n), slices.SortStableFunc is slower. The
		// positions break ties, which makes the result stable.
		slices.SortFunc(members, func(a, b member) int {
			return cmp.Or(cmp.Compare(a.key, b.key), d.compareNames(&a, &b), cmp.Compare(a.name.from, b.name.from))
		})
		return
	}
	for i := 1; i < len(members); i++ {
		inserted, at := members[i], i
		for ; at > 0 && d.before(&inserted, &members[at-1]); at-- {
			members[at] = members[at-1]
		}
		members[at] = inserted
	}
}

// before reports whether a belongs before b.
func (d *draft) before(a, b *member) bool {
	return a.key < b.key || a.key == b.key && d.compareNames(a, b) < 0
}

// compareNames orders members by the canonical spelling of their names, folded if
// names fold. Any total order would do, because equal names have equal spellings.
func (d *draft) compareNames(a, b *member) int {
	if d.folds {
		return compareFolded(d.nameOf(a), d.nameOf(b))
	}
	return bytes.Compare(d.nameOf(a), d.nameOf(b))
}

// nameOf returns a member's name. A JSON member's name lacks its quotation marks.
func (d *draft) nameOf(m *member) []byte { return d.text[m.name.from:m.name.to:m.name.to] }

// beginFrame begins a part of unknown length and returns the offset of its content.
// endFrame ends the part.
func (d *draft) beginFrame() (content int) {
	d.text = append(d.text, make([]byte, frameHeader)...)
	return len(d.text)
}

// frameHeader is the size in bytes of the length field of a part from beginFrame.
const frameHeader = 8

// endFrame writes the length of the part's content, and returns the content's span.
func (d *draft) endFrame(content int) span {
	d.frameLength(content, len(d.text)-content)
	return span{uint32(content), uint32(len(d.text))}
}

// frameLength writes the length before the content.
func (d *draft) frameLength(content, length int) {
	binary.BigEndian.PutUint64(d.text[content-frameHeader:], uint64(length))
}

// groupsBefore returns the number of groups that end before an offset into the text.
func (d *draft) groupsBefore(offset uint32) int {
	count, _ := slices.BinarySearchFunc(d.groups, offset, func(g group, offset uint32) int { return cmp.Compare(g.end, offset) })
	return count
}

// cut removes the text from an offset on, and its groups.
func (d *draft) cut(from int) {
	d.text, d.open, d.groups = d.text[:from], d.open[:0], d.groups[:d.groupsBefore(uint32(from)+1)]
}

func (d *draft) reset() {
	empty(&d.text)
	empty(&d.spare)
	empty(&d.open)
	empty(&d.settled)
	empty(&d.groups)
	empty(&d.folded)
	empty(&d.foldedMembers)
}

// foldedMember is a member with its folded name.
type foldedMember struct {
	member
	folded span // in draft.folded
}

// sortFolded sorts members if at least one name does not fold byte by byte. It folds
// each name once, because comparing long names takes as long as folding.
func (d *draft) sortFolded(members []member) {
	names := 0
	for i := range members {
		names += len(d.nameOf(&members[i]))
	}
	d.folded, d.foldedMembers = room(d.folded[:0], names), slices.Grow(d.foldedMembers[:0], len(members))
	for _, m := range members {
		from := len(d.folded)
		d.folded = appendFolded(d.folded, d.nameOf(&m))
		d.foldedMembers = append(d.foldedMembers, foldedMember{m, span{uint32(from), uint32(len(d.folded))}})
	}
	slices.SortFunc(d.foldedMembers, func(a, b foldedMember) int {
		return cmp.Or(
			bytes.Compare(d.folded[a.folded.from:a.folded.to], d.folded[b.folded.from:b.folded.to]),
			cmp.Compare(a.name.from, b.name.from),
		)
	})
	for i := range members {
		members[i] = d.foldedMembers[i].member
	}
}
