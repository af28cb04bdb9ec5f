package memstore

import (
	"math"
	"sync/atomic"
	"time"
)

// deadlines is a heap of when records expire, the earliest at its top. Each record
// knows its position in it, so that any of them can be removed in O(log n). A
// position has eight below it and not two: to move a record costs a visit to
// it, which is in no processor's cache, and so fewer are moved.
//
// It is in blocks, so that it grows without being copied.
type deadlines struct {
	// moved tells the record at a place its position.
	moved  func(place, uint32)
	blocks [][]deadline // full but for the last one
	length int
	// earliest is when the first one expires, or never. Who only wants to know
	// whether it is worth a visit reads it without the shard's lock.
	earliest atomic.Int64
}

const never = math.MaxInt64

func (d *deadlines) init(moved func(place, uint32)) {
	d.moved = moved
	d.earliest.Store(never)
}

// deadline is when the record at a place expires.
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

// first returns the deadline that comes first, or the zero one.
func (d *deadlines) first() deadline {
	if d.length == 0 {
		return deadline{}
	}
	return d.blocks[0][0]
}

// anyExpired may be asked without the shard's lock.
func (d *deadlines) anyExpired(now time.Duration) bool { return d.earliest.Load() <= int64(now) }

// all are the deadlines in no order that means anything.
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
		d.blocks = append(d.blocks, nil) // it grows by and by: a small store stays small
	default:
		d.blocks = append(d.blocks, make([]deadline, 0, blockSize))
	}
	block := &d.blocks[position>>blockBits]
	*block = append(*block, one)
	d.rise(position, one)
}

// drop takes the deadline at a position away.
func (d *deadlines) drop(position uint32) {
	d.length--
	number := d.length >> blockBits
	block := d.blocks[number]
	last := block[len(block)-1]
	d.blocks[number] = block[:len(block)-1]
	if spare := number + 2; spare < len(d.blocks) { // one is kept for those that come
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

// fix puts the deadline at a position where it belongs, now that it has changed.
func (d *deadlines) fix(position uint32, expires time.Duration) {
	one := deadline{expires, d.at(int(position)).place}
	d.rise(d.sink(int(position)), one)
}

// sink moves a hole down to where nothing is below it, and returns where that is.
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

// rise moves a hole up to where the deadline belongs, and puts it there.
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
