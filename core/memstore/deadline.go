package memstore

import "time"

// deadline is when the record at a place expires. An archive's deadlines are a
// binary heap, the earliest at its top. Each entry knows its position in it, so
// that any record can be removed in O(log n).
type deadline struct {
	expires time.Duration
	place   place
}

// expired returns the place of a record that has expired, and whether there is one.
func (a *archive) expired(now time.Duration) (place, bool) {
	if len(a.deadlines) == 0 || a.deadlines[0].expires > now {
		return nowhere, false
	}
	return a.deadlines[0].place, true
}

func (a *archive) push(d deadline) {
	a.deadlines = append(a.deadlines, d)
	a.rise(len(a.deadlines)-1, d)
}

// drop takes the deadline at a position away.
func (a *archive) drop(position uint32) {
	last := len(a.deadlines) - 1
	d := a.deadlines[last]
	a.deadlines = a.deadlines[:last]
	if hole := int(position); hole < last {
		a.rise(a.sink(hole), d)
	}
}

// sink moves a hole down to where nothing is below it, and returns where that is.
func (a *archive) sink(hole int) int {
	for {
		child := 2*hole + 1
		if child >= len(a.deadlines) {
			return hole
		}
		if other := child + 1; other < len(a.deadlines) && a.deadlines[other].expires < a.deadlines[child].expires {
			child = other
		}
		a.put(hole, a.deadlines[child])
		hole = child
	}
}

// rise moves a hole up to where the deadline belongs, and puts it there.
func (a *archive) rise(hole int, d deadline) {
	for hole > 0 {
		parent := (hole - 1) / 2
		if a.deadlines[parent].expires <= d.expires {
			break
		}
		a.put(hole, a.deadlines[parent])
		hole = parent
	}
	a.put(hole, d)
}

func (a *archive) put(position int, d deadline) {
	a.deadlines[position] = d
	a.at(d.place).setPosition(uint32(position))
}
