package memstore

const (
	// A chunk is a quarter of its archive, within these bounds, so that a small store
	// stays small. The offset of an entry must fit into offsetBits.
	minChunk = 1 << 10
	maxChunk = 32 << 10
	// An entry above this part of a chunk gets its own chunk, so that at most this
	// part of a chunk stays unused at its end.
	chunkParts = 8
	// largeEntry is the size above which an entry gets its own chunk in any archive.
	largeEntry = maxChunk / chunkParts
	// maxHoles is the part of an archive that may be holes: a quarter. So about two
	// records at most are moved for each dropped record.
	maxHoles = 4
	// toleratedHoles is the number of bytes that are not worth a move.
	toleratedHoles = 4 << 10
)

// chunk is a piece of an archive's memory. Its capacity never changes.
type chunk struct {
	bytes []byte
	holes int // bytes of removed entries
}

// reserve returns the place of the entry that is appended next, with space for limit
// bytes.
func (a *archive) reserve(limit int) place {
	if a.filling == noChunk || cap(a.chunks[a.filling].bytes)-len(a.chunks[a.filling].bytes) < limit {
		size := min(max(a.held/4, minChunk), maxChunk)
		if limit > size/chunkParts {
			return entryPlace(a.newChunk(make([]byte, 0, limit)), 0)
		}
		a.filling = a.newChunk(make([]byte, 0, size))
	}
	return entryPlace(a.filling, len(a.chunks[a.filling].bytes))
}

func (a *archive) newChunk(bytes []byte) (number uint32) {
	if last := len(a.vacant) - 1; last >= 0 {
		number, a.vacant = a.vacant[last], a.vacant[:last]
		a.chunks[number].bytes = bytes
		return number
	}
	a.chunks = append(a.chunks, chunk{bytes: bytes})
	return uint32(len(a.chunks) - 1)
}

// free drops a chunk that has no record left.
func (a *archive) free(number uint32) {
	c := &a.chunks[number]
	a.held -= len(c.bytes)
	a.holes -= c.holes
	*c = chunk{}
	a.vacant = append(a.vacant, number)
	if a.filling == number {
		a.filling = noChunk
	}
}

// compact empties the chunk with the largest holes. It moves that chunk's records, a
// few hundred at most.
func (a *archive) compact() {
	number := 0
	for i := range a.chunks {
		if a.chunks[i].holes > a.chunks[number].holes {
			number = i
		}
	}
	a.empty(uint32(number))
}

// empty moves the remaining entries of a chunk to other chunks.
func (a *archive) empty(number uint32) {
	if a.filling == number {
		a.filling = noChunk
	}
	bytes := a.chunks[number].bytes
	for offset := 0; offset < len(bytes); {
		e := entry(bytes[offset:])
		e = e[:e.parts().size]
		if e.position() != gone {
			a.move(entryPlace(number, offset), e)
		}
		offset += len(e)
	}
	a.free(number)
}

// move copies an entry to another chunk, and updates the index.
func (a *archive) move(from place, e entry) {
	to := a.reserve(len(e))
	c := &a.chunks[to.chunk()]
	c.bytes = append(c.bytes, e...)
	a.held += len(e)
	a.deadlines.at(int(e.position())).place = to
	a.index.replace(e.identity(), a.hash(*e.identity()), from, to)
}
