package fingerprint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// draft holds what is hashed: frames, and canonical text whose members (of a JSON
// object, of a form) stand in the order of the input first. Nothing moves until
// arrange puts them in theirs, so that every byte is moved once however deep it
// lies: moving members whenever their object ends would move the innermost once
// for each level around it. The zero value is ready for use.
type draft struct {
	text    []byte
	spare   []byte   // where arrange works
	open    []member // of the groups that have not ended, innermost last
	settled []member // of the groups that are out of order, each in its order
	groups  []group  // that are out of order, by their end
	folds   bool     // names are those of JSON members, and compared by their folds

	folded        []byte // where sortFolded works
	foldedMembers []foldedMember
}

// member is a part of the text that is sorted among its siblings. It has no more
// fields than the compiler keeps in registers.
type member struct {
	key    uint64 // the beginning of the name, folded if names fold
	name   span   // in text; the member begins with it
	end    uint32 // offset into text
	groups uint32 // how many groups had ended where the member did
}

// group is a run of members separated by commas.
type group struct {
	start, end uint32 // offsets into text
	from, to   uint32 // indexes into settled
	before     uint32 // how many groups had ended where this one began
}

// opening is a group that has not ended.
type opening struct {
	start, members, groups int
	last                   uint64 // key of the member that came last
	unordered              bool
}

// begin starts a group that begins at that offset into the text.
func (d *draft) begin(start int) opening {
	return opening{start: start, members: len(d.open), groups: len(d.groups)}
}

// add adds a member, which has just ended, to the group.
func (d *draft) add(o *opening, key uint64, start, nameEnd, end int) {
	d.open = append(d.open, member{key, span{uint32(start), uint32(nameEnd)}, uint32(end), uint32(len(d.groups))})
	if key <= o.last {
		last := len(d.open) - 1
		o.unordered = o.unordered || last > o.members && d.before(&d.open[last], &d.open[last-1])
	}
	o.last = key
}

// small is how many bytes a group may have for its members to be moved at once,
// while they are in the cache. Groups in it are small too, and moved again and
// again; but so short a text cannot nest many.
const small = 1 << 10

// end ends the group at that offset into the text, and finds the order of its members.
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
	d.settled = append(d.settled, members...)
	d.groups = append(d.groups, group{
		start: uint32(o.start), end: uint32(end), from: uint32(from), to: uint32(len(d.settled)), before: uint32(o.groups),
	})
}

// slack is for how many bytes there is room behind the text, for what is short is
// copied in pieces of that size, and read in words.
const slack = 16

// move puts the members of a small group in order, in which nothing is left to move.
func (d *draft) move(members []member, start, end int) {
	text := d.text[start : end+slack : cap(d.text)]
	d.spare = append(d.spare[:0], text...)
	room := d.spare
	out := 0
	for i := range members {
		from, left := int(members[i].name.from)-start, int(members[i].end-members[i].name.from)
		end := out + left
		for ; out < end; out, from = out+slack, from+slack {
			*(*[slack]byte)(text[out : out+slack : out+slack]) = *(*[slack]byte)(room[from : from+slack : from+slack])
		}
		out = end
		text[out] = ','
		out++
	}
}

// sort puts members in order, those of one name as they came.
func (d *draft) sort(members []member) {
	if d.folds && slices.ContainsFunc(members, func(m member) bool { return !isPlain(d.nameOf(&m)) }) {
		d.sortFolded(members)
		return
	}
	const few = 12
	if len(members) > few {
		// slices.SortFunc is O(n log n), as slices.SortStableFunc is not; the
		// positions break ties, which makes the outcome stable.
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

// before reports whether a member belongs before another.
func (d *draft) before(a, b *member) bool {
	return a.key < b.key || a.key == b.key && d.compareNames(a, b) < 0
}

// compareNames orders members by the canonical spelling of their names, folded if
// names fold. Equal spellings are equal names, so any other order would do as well.
func (d *draft) compareNames(a, b *member) int {
	if d.folds {
		return compareFolded(d.nameOf(a), d.nameOf(b))
	}
	return bytes.Compare(d.nameOf(a), d.nameOf(b))
}

// nameOf returns a member's name. That of a JSON member is between quotation marks.
func (d *draft) nameOf(m *member) []byte { return d.text[m.name.from:m.name.to:m.name.to] }

// arrange puts the members of all groups, which lie in text[from:], in order.
func (d *draft) arrange(from int) {
	if len(d.groups) == 0 {
		return
	}
	to := len(d.text)
	d.spare = slices.Grow(append(d.spare[:0], d.text[:from]...), to-from+slack)[:to]
	d.fill(d.spare, uint32(from), uint32(to), uint32(len(d.groups)))
	d.text, d.spare = d.spare, d.text
	d.settled, d.groups = d.settled[:0], d.groups[:0]
}

// fill puts text[from:to] at the end of room, from behind, for what ends last is
// outermost, and returns the room that is left. The first so many groups can lie
// in it. It recurses as deep as the groups are nested.
func (d *draft) fill(room []byte, from, to, groups uint32) (left []byte) {
	for groups > 0 && d.groups[groups-1].start >= from {
		g := &d.groups[groups-1]
		room = putLast(room, d.text[g.end:to])
		for i := g.to; i > g.from; i-- {
			m := &d.settled[i-1]
			room = d.fill(room, m.name.from, m.end, m.groups)
			if i-1 > g.from {
				room = putLast(room, comma)
			}
		}
		to, groups = g.start, g.before
	}
	return putLast(room, d.text[from:to])
}

var comma = []byte{','}

// putLast puts text at the end of room, and returns the room that is left.
func putLast(room, text []byte) (left []byte) {
	left = room[:len(room)-len(text)]
	copy(room[len(left):], text)
	return left
}

// appendFrame appends a part: its length, so that parts cannot run together, and
// itself.
func appendFrame[T string | []byte](dst []byte, part T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	return append(dst, part...)
}

// beginFrame begins a part whose length is not known yet. endFrame ends it. It
// returns where the content begins.
func (d *draft) beginFrame() (content int) {
	d.text = append(d.text, make([]byte, frameHeader)...)
	return len(d.text)
}

// frameHeader is how many bytes the length of such a part takes.
const frameHeader = 8

// endFrame puts the members of the part's content in order, and its length before
// it, and returns where it is.
func (d *draft) endFrame(content int) span {
	d.arrange(content)
	d.frameLength(content, len(d.text)-content)
	return span{uint32(content), uint32(len(d.text))}
}

// frameLength announces that the content that begins there has that length.
func (d *draft) frameLength(content, length int) {
	binary.BigEndian.PutUint64(d.text[content-frameHeader:], uint64(length))
}

// cut takes back all text from that offset on, and the groups, which are in it.
func (d *draft) cut(from int) {
	d.text = d.text[:from]
	d.open, d.settled, d.groups = d.open[:0], d.settled[:0], d.groups[:0]
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
