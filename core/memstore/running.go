package memstore

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// record is the store's record of an unfinished key: running or released.
type record struct {
	storage.Lease // the last one, as it was granted or extended
	name
	place place
	// released: the key has no holder. Without steps only the attempt number is needed.
	released bool
	// created, leaseEnd and expires are times since the store's start.
	created  time.Duration
	leaseEnd time.Duration
	expires  time.Duration
	cost     int64
	position uint32 // in the deadlines
}

// release ends the attempt of a lease. Without steps it leaves only the attempt number.
func (r *record) release(l storage.Lease) {
	l.Remember, r.released = 0, true
	if l.Steps == "" {
		l.Fingerprint, l.Digest, l.Origin = "", storage.Digest{}, storage.Origin{}
	}
	r.Lease = l
}

// isForgotten reports whether only the attempt number is left of the record.
func (r *record) isForgotten() bool { return r.released && r.Steps == "" }

func (r *record) state() storage.State {
	if r.released {
		return storage.Released
	}
	return storage.InProgress
}

// isOf reports whether the record belongs to the lease.
func (r *record) isOf(l *storage.Lease) bool { return r.Token == l.Token && r.Attempt == l.Attempt }

// show returns the record. Its times are relative to epoch, the wall time of the
// store's start.
func (r *record) show(now time.Duration, epoch time.Time) *storage.Record {
	return &storage.Record{
		State:       r.state(),
		Fingerprint: r.Fingerprint,
		Digest:      r.Digest,
		Attempt:     r.Attempt,
		LeaseLeft:   r.leaseEnd - now,
		Steps:       r.Steps,
		Origin:      r.Origin,
		Created:     epoch.Add(r.created),
		Expires:     epoch.Add(r.expires),
	}
}

// unfinished has the running and the released records of a shard. There are few of
// them, and they change. A dropped record is used again for the next key.
type unfinished struct {
	records   []*record // by number, nil for vacant numbers
	vacant    []uint32
	spare     []*record
	deadlines deadlines
}

// maxSpare is the number of dropped records that are kept for new keys: the number
// that a shard is likely to have running at a time, and little memory.
const maxSpare = 32

func (u *unfinished) init() {
	u.deadlines.init(func(p place, position uint32) { u.at(p).position = position })
}

func (u *unfinished) at(p place) *record { return u.records[p.number()] }

// add makes the record of a key that is not in the shard.
func (u *unfinished) add(n *name, expires time.Duration) *record {
	r := u.take()
	*r = record{name: *n, place: r.place, expires: expires}
	u.deadlines.push(deadline{expires, r.place})
	return r
}

// take returns a record with a place and with arbitrary other fields.
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

// drop deletes a record. The caller must not use the record afterwards.
func (u *unfinished) drop(r *record) {
	u.deadlines.drop(r.position)
	number := r.place.number()
	u.records[number] = nil
	u.vacant = append(u.vacant, number)
	*r = record{} // lets the garbage collector have its strings
	if len(u.spare) < maxSpare {
		u.spare = append(u.spare, r)
	}
}
