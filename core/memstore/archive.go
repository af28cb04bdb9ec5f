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
// The tables beside the chunks take about 45 bytes a record, and keep the size that
// the largest number of records gave them.
type archive struct {
	// tag is a short hash: some records have the same one.
	tag func(identity) uint32
	// index has, by tag, the place of one record; the others of its tag, if any,
	// follow by entry.next.
	index     map[uint32]place
	deadlines []deadline
	chunks    []chunk
	vacant    []uint32 // numbers in chunks that have none
	filling   uint32   // the chunk that takes the next entry, or noChunk
	held      int      // bytes of entries, holes included
	holes     int      // bytes of removed entries
}

// place is where an entry begins.
type place struct{ chunk, offset uint32 }

const noChunk = 1<<32 - 1

var nowhere = place{chunk: noChunk}

func newArchive(tag func(identity) uint32) archive {
	return archive{tag: tag, index: make(map[uint32]place), filling: noChunk}
}

func (a *archive) at(p place) entry { return a.chunks[p.chunk].bytes[p.offset:] }

// find returns the record's place, and whether there is one.
func (a *archive) find(id identity) (place, bool) {
	p, found := a.index[a.tag(id)]
	for found && a.at(p).identity() != id {
		p = a.at(p).next()
		found = p != nowhere
	}
	return p, found
}

// add takes a record whose identity the archive does not hold. It may be encoded
// already: what is large is not written under a lock.
func (a *archive) add(d *draft, encoded []byte, expires time.Duration) entry {
	var p place
	if encoded != nil {
		p = place{chunk: a.newChunk(encoded)}
		a.held += len(encoded)
	} else {
		p = a.reserve(d.limit())
		c := &a.chunks[p.chunk]
		c.bytes = d.appendTo(c.bytes)
		a.held += len(c.bytes) - int(p.offset)
	}
	e := a.at(p)
	e.setExpires(expires)
	tag := a.tag(d.id)
	if first, ok := a.index[tag]; ok {
		e.setNext(first)
	}
	a.index[tag] = p
	a.push(deadline{expires, p})
	return e
}

// remove forgets a record.
func (a *archive) remove(p place) {
	e := a.at(p)
	a.relink(e.identity(), p, e.next())
	a.drop(e.position())
	e.setPosition(gone)
	size := e.parts().size
	c := &a.chunks[p.chunk]
	c.holes += size
	a.holes += size
	if c.holes == len(c.bytes) {
		a.free(p.chunk)
	}
	for a.holes > a.held/maxHoles && a.holes > toleratedHoles {
		a.compact()
	}
}

// relink lets what leads to one place lead to another, or nowhere.
func (a *archive) relink(id identity, from, to place) {
	tag := a.tag(id)
	p := a.index[tag]
	switch {
	case p != from:
		for a.at(p).next() != from {
			p = a.at(p).next()
		}
		a.at(p).setNext(to)
	case to == nowhere:
		delete(a.index, tag)
	default:
		a.index[tag] = to
	}
}
