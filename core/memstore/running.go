package memstore

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// record is the store's record of an unfinished key: running or released.
type record struct {
	id          identity
	hash        uint64 // of the id
	place       place
	oddKey      string // the key, unless it is the id's digits
	fingerprint string
	digest      storage.Digest
	steps       string
	origin      storage.Origin
	token       storage.Token
	attempt     uint64
	tookOver    bool
	odd         bool // oddKey is the key
	// released: the key has no holder. Without steps only the attempt number is needed.
	released bool
	// created, leaseEnd and expires are times since the store's start.
	created  time.Duration
	leaseEnd time.Duration
	expires  time.Duration
	remember time.Duration // how long a tombstone is kept after expires
	cost     int64
	// position is the record's position in the deadlines.
	position uint32
}

// hold gives the record to the lease's holder and marks the record as running.
func (r *record) hold(l *storage.Lease) {
	r.token, r.attempt, r.tookOver = l.Token, l.Attempt, l.TookOver
	r.fingerprint, r.digest, r.steps, r.origin, r.remember, r.released = l.Fingerprint, l.Digest, l.Steps, l.Origin, l.Remember, false
}

// release ends the attempt of a lease. Without steps it leaves only the attempt number.
func (r *record) release(l *storage.Lease) {
	r.hold(l)
	r.remember, r.released = 0, true
	if l.Steps == "" {
		r.fingerprint, r.digest, r.origin = "", storage.Digest{}, storage.Origin{}
	}
}

// isForgotten reports whether only the attempt number is left of the record.
func (r *record) isForgotten() bool { return r.released && r.steps == "" }

func (r *record) state() storage.State {
	if r.released {
		return storage.Released
	}
	return storage.InProgress
}

// key returns the record's key. Most records do without a text of their own for it.
func (r *record) key() string {
	if r.odd {
		return r.oddKey
	}
	return r.id.spell()
}

// size is the size that MaxBytes counts.
func (r *record) size() int64 {
	size := cost(r.oddKey, r.fingerprint, &r.origin) + int64(len(r.steps))
	if !r.odd {
		size += 2 * int64(len(r.id))
	}
	return size
}

// isOf reports whether the record belongs to the lease.
func (r *record) isOf(l *storage.Lease) bool { return r.token == l.Token && r.attempt == l.Attempt }

// show returns the record. Its times are relative to epoch, the wall time of the
// store's start.
func (r *record) show(now time.Duration, epoch time.Time) *storage.Record {
	return &storage.Record{
		State:       r.state(),
		Fingerprint: r.fingerprint,
		Digest:      r.digest,
		Attempt:     r.attempt,
		LeaseLeft:   r.leaseEnd - now,
		Steps:       r.steps,
		Origin:      r.origin,
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
func (u *unfinished) add(n *name, key string, expires time.Duration) *record {
	r := u.take()
	*r = record{id: n.id, hash: n.hash, place: r.place, odd: !n.complete, expires: expires}
	if r.odd {
		r.oddKey = key
	}
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
