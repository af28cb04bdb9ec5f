package memstore

// index finds the place of a record by the hash of its identity. Neither map has a
// pointer in it, so the garbage collector does not look into them. A map grows in
// pieces of at most 1,024 places, so no caller waits long for it under the shard's
// lock. A map never shrinks, so one that is emptied is replaced.
type index struct {
	places map[uint64]place
	// others has the records whose hash is that of another one in places. Hashes of
	// 64 bits nearly never meet, and it is nearly always empty.
	others map[identity]place
}

// The lowest bits of a hash choose the shard.
const shardBits = 6

// place is where a record is: running<<39 | its number among the running ones, or
// chunk<<16 | the offset of its entry. It is never zero.
type place uint64

const (
	nowhere    place = 0
	running    place = 1 << 39
	offsetBits       = 16
)

func runningPlace(number uint32) place { return running | place(number) }

func entryPlace(chunk uint32, offset int) place { return place(chunk)<<offsetBits | place(offset) }

func (p place) isRunning() bool { return p&running != 0 }

// number is that of a running record.
func (p place) number() uint32 { return uint32(p) }

func (p place) chunk() uint32 { return uint32(p >> offsetBits) }

func (p place) offset() int { return int(p & (1<<offsetBits - 1)) }

func (x *index) init() {
	x.places, x.others = map[uint64]place{}, map[identity]place{}
}

// insert adds the place of a record that the index does not have.
func (x *index) insert(id *identity, hash uint64, p place) {
	if _, met := x.places[hash]; met {
		x.others[*id] = p
	} else {
		x.places[hash] = p
	}
}

// replace lets the index lead to another place of a record.
func (x *index) replace(id *identity, hash uint64, from, to place) {
	if x.places[hash] == from {
		x.places[hash] = to
	} else {
		x.others[*id] = to
	}
}

// remove forgets the place of a record.
func (x *index) remove(id *identity, hash uint64, p place) {
	if x.places[hash] == p {
		delete(x.places, hash)
	} else {
		delete(x.others, *id)
	}
	if len(x.places) == 0 {
		x.places = map[uint64]place{}
	}
}
