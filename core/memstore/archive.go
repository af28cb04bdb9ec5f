package memstore

import "time"

// archive holds the finished records of a shard in chunks of bytes, and finds them
// without a pointer to any: the garbage collector sees a few chunks, however many
// records there are.
//
// A chunk is only ever appended to. What was removed from it leaves a hole until
// the chunk has nothing else, or until compact moves the rest elsewhere. Then the
// chunk is given to the collector and not used again: a replay's body is part of
// it, and stays what it is for as long as somebody holds it.
//
// The index and the deadlines beside the chunks take 35 to 55 bytes a record.
type archive struct {
	hash      func(identity) uint64
	index     *index // leads to each entry; the shard's, which also leads elsewhere
	deadlines deadlines
	chunks    []chunk  // the first one is never there: no place is zero
	vacant    []uint32 // numbers in chunks that have none
	filling   uint32   // the chunk that takes the next entry, or noChunk
	held      int      // bytes of entries, holes included
	holes     int      // bytes of removed entries
}

const noChunk = 0

func (a *archive) init(index *index, hash func(identity) uint64) {
	a.hash, a.index, a.chunks = hash, index, make([]chunk, 1)
	a.deadlines.init(func(p place, position uint32) { a.at(p).setPosition(position) })
}

func (a *archive) at(p place) entry { return a.chunks[p.chunk()].bytes[p.offset():] }

// add takes a record, and returns its place, to which the caller lets the index
// lead. It may be encoded already: what is large is not written under a lock.
func (a *archive) add(d *draft, encoded []byte, expires time.Duration) place {
	var p place
	if encoded != nil {
		p = entryPlace(a.newChunk(encoded), 0)
		a.held += len(encoded)
	} else {
		p = a.reserve(d.limit())
		c := &a.chunks[p.chunk()]
		c.bytes = d.appendTo(c.bytes)
		a.held += len(c.bytes) - p.offset()
	}
	a.at(p).setExpires(expires)
	a.deadlines.push(deadline{expires, p})
	return p
}

// remove forgets a record, and returns what it consisted of.
func (a *archive) remove(p place) parts {
	e := a.at(p)
	a.index.remove(e.identity(), a.hash(*e.identity()), p)
	a.deadlines.drop(e.position())
	e.setPosition(gone)
	removed := e.parts()
	c := &a.chunks[p.chunk()]
	c.holes += removed.size
	a.holes += removed.size
	if c.holes == len(c.bytes) {
		a.free(p.chunk())
	}
	for a.holes > a.held/maxHoles && a.holes > toleratedHoles {
		a.compact()
	}
	return removed
}
