package memstore

// index finds the place of a record by the hash of its identity. Neither map holds
// pointers, so the garbage collector does not scan them. A map grows in pieces of at
// most 1,024 places, so no caller waits long for the growth under the shard's lock. A
// map never shrinks, so an emptied map is replaced.
type index struct {
	places map[uint64]place
	// others has the records whose hash equals the hash of another record in places.
	// Hashes of 64 bits nearly never collide, so the map is nearly always empty.
	others map[identity]place
}

// The lowest bits of a hash choose the shard.
const shardBits = 6

// place is the location of a record: running<<39 | its number among the running
// records, or chunk<<16 | the offset of its entry. A place is never zero.
type place uint64

const (
	nowhere    place = 0
	running    place = 1 << 39
	offsetBits       = 16
)

func runningPlace(number uint32) place { return running | place(number) }

func entryPlace(chunk uint32, offset int) place { return place(chunk)<<offsetBits | place(offset) }

func (p place) isRunning() bool { return p&running != 0 }

// number is the number of a running record.
func (p place) number() uint32 { return uint32(p) }

func (p place) chunk() uint32 { return uint32(p >> offsetBits) }

func (p place) offset() int { return int(p & (1<<offsetBits - 1)) }

func (x *index) init() {
	x.places, x.others = map[uint64]place{}, map[identity]place{}
}

// insert adds the place of a record that is not in the index.
func (x *index) insert(id *identity, hash uint64, p place) {
	if _, met := x.places[hash]; met {
		x.others[*id] = p
	} else {
		x.places[hash] = p
	}
}

// replace changes the place of a record.
func (x *index) replace(id *identity, hash uint64, from, to place) {
	if x.places[hash] == from {
		x.places[hash] = to
	} else {
		x.others[*id] = to
	}
}

// remove deletes the place of a record.
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
