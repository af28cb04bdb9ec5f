package memstore

import "time"

// archive holds the finished records of a shard in chunks of bytes. It refers to
// records by number, so the garbage collector sees a few chunks, however many records
// there are.
//
// Entries are only appended to a chunk. A removed entry leaves a hole until the chunk
// has no other entry, or until compact moves the others to another chunk. The garbage
// collector then gets the chunk, which is not used again: the body of a replay points
// into the chunk, and must not change while a caller holds it.
//
// The index and the deadlines beside the chunks take 35 to 55 bytes a record.
type archive struct {
	hash      func(identity) uint64
	index     *index // leads to each entry; shared with the running records
	deadlines deadlines
	chunks    []chunk  // index 0 stays empty: no place is zero
	vacant    []uint32 // vacant indexes of chunks
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

// add stores a record and returns its place. The caller adds the place to the index.
// A large record is passed encoded, so that the encoding needs no lock.
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
	a.at(p).setRun(d.run)
	a.deadlines.push(deadline{expires, p})
	return p
}

// remove deletes a record and returns its parts.
func (a *archive) remove(p place) parts {
	e := a.at(p)
	a.index.remove(e.identity(), a.hash(*e.identity()), p)
	return a.drop(e, p)
}

// replace stores another record of the same key, and deletes the one at the place.
func (a *archive) replace(p place, d *draft, expires time.Duration) {
	a.index.replace(&d.name.id, d.name.hash, p, a.add(d, nil, expires))
	a.drop(a.at(p), p)
}

// drop deletes a record that the index does not lead to, and returns its parts.
func (a *archive) drop(e entry, p place) parts {
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
