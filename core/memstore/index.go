package memstore

import "math/bits"

// index finds the place of a record by the hash of its identity. It has no
// pointers but those to its tables, and each look-up reads one cache line of them
// most of the time.
type index struct {
	tables [tableCount]table
}

const (
	// The lowest bits of a hash choose the shard and the next ones the table; the
	// highest ones are in the slot, and choose its home.
	shardBits = 6
	tableBits = 4
	placeBits = 40

	// tableCount is more than one so that a table that grows is small: it is copied
	// under the shard's lock.
	tableCount = 1 << tableBits
	// minSlots is how many a table begins with.
	minSlots = 8
)

// place is where a record is: running<<39 | its number among the running ones, or
// chunk<<16 | the offset of its entry. It is never zero.
type place uint64

const (
	nowhere    place = 0
	running    place = 1 << (placeBits - 1)
	offsetBits       = 16
)

func runningPlace(number uint32) place { return running | place(number) }

func entryPlace(chunk uint32, offset int) place { return place(chunk)<<offsetBits | place(offset) }

func (p place) isRunning() bool { return p&running != 0 }

// number is that of a running record.
func (p place) number() uint32 { return uint32(p) }

func (p place) chunk() uint32 { return uint32(p >> offsetBits) }

func (p place) offset() int { return int(p & (1<<offsetBits - 1)) }

// slot is the upper part of a hash and a place, or zero.
type slot uint64

func newSlot(hash uint64, p place) slot { return slot(hash>>placeBits<<placeBits) | slot(p) }

func (s slot) place() place { return place(s & (1<<placeBits - 1)) }

// matches reports whether the slot may be of an identity with that hash.
func (s slot) matches(hash uint64) bool { return (uint64(s)^hash)>>placeBits == 0 }

// table is a hash table with open addressing and linear probing. It never becomes
// smaller.
type table struct {
	slots []slot // as many as a power of two
	used  uint32
	shift uint8 // what turns a hash into a home
}

func (x *index) table(hash uint64) *table { return &x.tables[hash>>shardBits%tableCount] }

// home is where a slot belongs. It is the slot's highest bits: so records keep
// their order when the table grows, and growing reads and writes memory in turn.
func (t *table) home(hash uint64) int { return int(hash >> placeBits << placeBits >> t.shift) }

func (t *table) after(i int) int { return (i + 1) & (len(t.slots) - 1) }

// first returns the first slot that matches, and its place, or nowhere. The others
// follow by next.
func (t *table) first(hash uint64) (int, place) {
	if t.used == 0 {
		return 0, nowhere
	}
	return t.seek(t.home(hash), hash)
}

func (t *table) next(i int, hash uint64) (int, place) { return t.seek(t.after(i), hash) }

func (t *table) seek(i int, hash uint64) (int, place) {
	for ; t.slots[i] != 0; i = t.after(i) {
		if t.slots[i].matches(hash) {
			return i, t.slots[i].place()
		}
	}
	return i, nowhere
}

// find returns the slot of a place that is there.
func (t *table) find(hash uint64, p place) int {
	i, found := t.first(hash)
	for found != p {
		i, found = t.next(i, hash)
	}
	return i
}

func (x *index) insert(hash uint64, p place) {
	t := x.table(hash)
	if int(t.used) >= len(t.slots)/4*3 {
		t.grow()
	}
	t.put(newSlot(hash, p))
	t.used++
}

// put fills the first free slot.
func (t *table) put(s slot) {
	i := t.home(uint64(s))
	for t.slots[i] != 0 {
		i = t.after(i)
	}
	t.slots[i] = s
}

func (t *table) grow() {
	before := t.slots
	t.slots = make([]slot, max(2*len(before), minSlots))
	t.shift = uint8(64 - bits.TrailingZeros(uint(len(t.slots))))
	for _, s := range before {
		if s != 0 {
			t.put(s)
		}
	}
}

// replace lets what leads to one place lead to another.
func (x *index) replace(hash uint64, from, to place) {
	t := x.table(hash)
	t.slots[t.find(hash, from)] = newSlot(hash, to)
}

// remove frees the slot that leads to the place, and moves those behind it that it
// kept from their homes.
func (x *index) remove(hash uint64, p place) {
	t := x.table(hash)
	free := t.find(hash, p)
	for i := t.after(free); t.slots[i] != 0; i = t.after(i) {
		home, mask := t.home(uint64(t.slots[i])), len(t.slots)-1
		if (i-home)&mask >= (i-free)&mask {
			t.slots[free] = t.slots[i]
			free = i
		}
	}
	t.slots[free] = 0
	t.used--
}
