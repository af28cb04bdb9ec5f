package memstore

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// record is what the store holds for a key that is not finished. It is running or
// released.
type record struct {
	id          identity
	hash        uint64 // of the id
	place       place
	key         string
	fingerprint string
	digest      storage.Digest
	token       storage.Token
	attempt     uint64
	tookOver    bool
	// released: nobody holds the key; only the attempt number is remembered.
	released bool
	// leaseEnd and expires are times since the store's start.
	leaseEnd time.Duration
	expires  time.Duration
	cost     int64
	// position is the record's in the deadlines.
	position uint32
}

// hold gives the record to the lease's holder, running.
func (r *record) hold(l *storage.Lease) {
	r.token, r.attempt, r.tookOver = l.Token, l.Attempt, l.TookOver
	r.fingerprint, r.digest, r.released = l.Fingerprint, l.Digest, false
}

// isOf reports whether the record is the lease's own.
func (r *record) isOf(l *storage.Lease) bool { return r.token == l.Token && r.attempt == l.Attempt }

func (r *record) inProgress(now time.Duration) *storage.Record {
	return &storage.Record{
		State:       storage.InProgress,
		Fingerprint: r.fingerprint,
		Digest:      r.digest,
		Attempt:     r.attempt,
		LeaseLeft:   r.leaseEnd - now,
	}
}

// unfinished are the running and the released records of a shard. There are few,
// and they change. One that is gone is used again for the next.
type unfinished struct {
	records   []*record // by number, nil for the vacant ones
	vacant    []uint32
	spare     []*record
	deadlines deadlines
}

// maxSpare is how many records are kept for the next ones: as many as a shard is
// likely to have running at a time, and little memory.
const maxSpare = 32

func (u *unfinished) init() {
	u.deadlines.init(func(p place, position uint32) { u.at(p).position = position })
}

func (u *unfinished) at(p place) *record { return u.records[p.number()] }

// add makes a record of a key that the shard does not hold.
func (u *unfinished) add(n *name, key string, expires time.Duration) *record {
	r := u.take()
	*r = record{id: n.id, hash: n.hash, place: r.place, key: key, expires: expires}
	u.deadlines.push(deadline{expires, r.place})
	return r
}

// take returns a record of any content that has a place.
func (u *unfinished) take() *record {
	var r *record
	if last := len(u.spare) - 1; last >= 0 {
		r, u.spare = u.spare[last], u.spare[:last]
	} else {
		r = new(record)
	}
	number := uint32(len(u.records))
	if last := len(u.vacant) - 1; last >= 0 {
		number, u.vacant = u.vacant[last], u.vacant[:last]
		u.records[number] = r
	} else {
		u.records = append(u.records, r)
	}
	r.place = runningPlace(number)
	return r
}

// drop forgets a record, which nobody may use from now on.
func (u *unfinished) drop(r *record) {
	u.deadlines.drop(r.position)
	number := r.place.number()
	u.records[number] = nil
	u.vacant = append(u.vacant, number)
	*r = record{} // its texts are for the garbage collector
	if len(u.spare) < maxSpare {
		u.spare = append(u.spare, r)
	}
}
