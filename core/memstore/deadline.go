package memstore

import (
	"math"
	"sync/atomic"
	"time"
)

// deadlines is a heap of expiry times, with the earliest at the top. Each record
// knows its position in the heap, so that any record can be removed in O(log n). A
// position has eight children instead of two. Moving a record means a visit to the
// record, usually a cache miss, and a wider heap moves fewer records.
//
// The heap consists of blocks, so that it grows without being copied.
type deadlines struct {
	// moved sets the position in the record at a place.
	moved  func(place, uint32)
	blocks [][]deadline // full except for the last block
	length int
	// earliest is the first expiry time, or never. A caller reads it without the
	// shard's lock to learn whether to visit the shard.
	earliest atomic.Int64
}

const never = math.MaxInt64

func (d *deadlines) init(moved func(place, uint32)) {
	d.moved = moved
	d.earliest.Store(never)
}

// deadline is the expiry time of the record at a place.
type deadline struct {
	expires time.Duration
	place   place
}

const (
	deadlineFan = 8
	blockBits   = 9
	blockSize   = 1 << blockBits
)

func (d *deadlines) at(position int) *deadline {
	return &d.blocks[position>>blockBits][position%blockSize]
}

// first returns the earliest deadline, or the zero deadline.
func (d *deadlines) first() deadline {
	if d.length == 0 {
		return deadline{}
	}
	return d.blocks[0][0]
}

// anyExpired may be called without the shard's lock.
func (d *deadlines) anyExpired(now time.Duration) bool { return d.earliest.Load() <= int64(now) }

// all yields the deadlines in no particular order.
func (d *deadlines) all(yield func(deadline) bool) {
	for position := range d.length {
		if !yield(*d.at(position)) {
			return
		}
	}
}

// expired returns the place of a record that has expired, or nowhere.
func (d *deadlines) expired(now time.Duration) place {
	if d.anyExpired(now) {
		return d.first().place
	}
	return nowhere
}

func (d *deadlines) push(one deadline) {
	position := d.length
	d.length++
	switch number := position >> blockBits; {
	case number < len(d.blocks):
	case number == 0:
		d.blocks = append(d.blocks, nil) // the first block grows by doubling: a small store stays small
	default:
		d.blocks = append(d.blocks, make([]deadline, 0, blockSize))
	}
	block := &d.blocks[position>>blockBits]
	*block = append(*block, one)
	d.rise(position, one)
}

// drop removes the deadline at a position.
func (d *deadlines) drop(position uint32) {
	d.length--
	number := d.length >> blockBits
	block := d.blocks[number]
	last := block[len(block)-1]
	d.blocks[number] = block[:len(block)-1]
	if spare := number + 2; spare < len(d.blocks) { // one spare block is kept
		d.blocks[spare] = nil
		d.blocks = d.blocks[:spare]
	}
	if hole := int(position); hole < d.length {
		d.rise(d.sink(hole), last)
	}
	if d.length == 0 {
		d.earliest.Store(never)
	}
}

// fix moves the deadline at a position to its right place after a change.
func (d *deadlines) fix(position uint32, expires time.Duration) {
	one := deadline{expires, d.at(int(position)).place}
	d.rise(d.sink(int(position)), one)
}

// sink moves a hole down to a leaf, and returns the hole's new position.
func (d *deadlines) sink(hole int) int {
	for {
		child := deadlineFan*hole + 1
		if child >= d.length {
			return hole
		}
		earliest := child
		for other := child + 1; other < min(child+deadlineFan, d.length); other++ {
			if d.at(other).expires < d.at(earliest).expires {
				earliest = other
			}
		}
		d.put(hole, *d.at(earliest))
		hole = earliest
	}
}

// rise moves a hole up to the deadline's right place, and stores the deadline.
func (d *deadlines) rise(hole int, one deadline) {
	for hole > 0 {
		parent := (hole - 1) / deadlineFan
		if d.at(parent).expires <= one.expires {
			break
		}
		d.put(hole, *d.at(parent))
		hole = parent
	}
	d.put(hole, one)
}

func (d *deadlines) put(position int, one deadline) {
	*d.at(position) = one
	if position == 0 {
		d.earliest.Store(int64(one.expires))
	}
	d.moved(one.place, uint32(position))
}
