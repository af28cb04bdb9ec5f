package memstore

import (
	"container/heap"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core"
)

// shard is a part of the keys under one lock. A key is in at most one of its two
// parts.
type shard struct {
	mutex sync.Mutex
	// records are the running and the released ones. There are few, and they change.
	records map[identity]*record
	expiry  expiryHeap
	// finished records are many, and do not change.
	finished archive
}

// record is what the store holds for a key that is not finished. It is running or
// released.
type record struct {
	id          identity
	key         string
	fingerprint string
	token       core.Token
	attempt     uint64
	tookOver    bool
	// released: nobody holds the key; only the attempt number is remembered.
	released bool
	// leaseEnd and expires are times since the store's start.
	leaseEnd time.Duration
	expires  time.Duration
	cost     int64
	// position is the record's index in the shard's heap.
	position int
}

// hold gives the record to the lease's holder, running.
func (r *record) hold(l core.Lease) {
	r.token, r.attempt, r.tookOver = l.Token, l.Attempt, l.TookOver
	r.fingerprint, r.released = l.Fingerprint, false
}

func (r *record) inProgress(now time.Duration) *core.Record {
	return &core.Record{
		State:       core.InProgress,
		Fingerprint: r.fingerprint,
		Attempt:     r.attempt,
		LeaseLeft:   r.leaseEnd - now,
	}
}

// lookUp returns the key's record, running or released, or its entry, finished, or
// neither when there is none that has not expired.
func (s *Store) lookUp(shard *shard, id identity, now time.Duration) (*record, entry) {
	if r := shard.records[id]; r != nil {
		if r.expires > now {
			return r, nil
		}
		s.remove(shard, r)
		return nil, nil
	}
	place, found := shard.finished.find(id)
	if !found {
		return nil, nil
	}
	if e := shard.finished.at(place); e.expires() > now {
		return nil, e
	}
	s.removeFinished(shard, place)
	return nil, nil
}

// openTo returns the key's record, or nil when there is none, if the token may
// still settle: nobody else has claimed the key, and it is not finished.
func (s *Store) openTo(shard *shard, id identity, token core.Token, now time.Duration) (*record, error) {
	r, finished := s.lookUp(shard, id, now)
	if finished != nil || r != nil && r.token != token {
		return nil, core.ErrLeaseLost
	}
	return r, nil
}

// insert adds a record beyond the bounds, for a settlement that must succeed.
func (s *Store) insert(shard *shard, id identity, key string, expires time.Duration) *record {
	r := &record{id: id, key: key, expires: expires}
	s.records.Add(1)
	shard.add(r)
	return r
}

// keep sets when a record expires, and counts what it takes now.
func (s *Store) keep(shard *shard, r *record, expires time.Duration) {
	r.expires = expires
	heap.Fix(&shard.expiry, r.position)
	before := r.cost
	r.cost = cost(r.key, r.fingerprint)
	s.bytes.Add(r.cost - before)
}

// finish puts the entry in the place of the key's record, which may be nil. The
// count of records does not fall meanwhile: nobody takes the key's room.
func (s *Store) finish(shard *shard, r *record, d *draft, encoded []byte, expires time.Duration) {
	before := int64(0)
	if r == nil {
		s.records.Add(1)
	} else {
		before = r.cost
		shard.drop(r)
	}
	e := shard.finished.add(d, encoded, expires)
	parts := e.parts()
	s.bytes.Add(e.cost(&parts) - before)
}

func (s *Store) remove(shard *shard, r *record) {
	shard.drop(r)
	s.records.Add(-1)
	s.bytes.Add(-r.cost)
}

func (s *Store) removeFinished(shard *shard, p place) {
	e := shard.finished.at(p)
	parts := e.parts()
	s.records.Add(-1)
	s.bytes.Add(-e.cost(&parts))
	shard.finished.remove(p)
}

func (shard *shard) add(r *record) {
	shard.records[r.id] = r
	heap.Push(&shard.expiry, r)
}

func (shard *shard) drop(r *record) {
	delete(shard.records, r.id)
	heap.Remove(&shard.expiry, r.position)
}

// expiryHeap has the record that expires first at its top. Each record knows its
// position, so that one that is settled or extended moves in O(log n).
type expiryHeap []*record

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].expires < h[j].expires }

func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i, j
}

func (h *expiryHeap) Push(x any) {
	r := x.(*record) //nolint:forcetypeassert // only records are pushed
	r.position = len(*h)
	*h = append(*h, r)
}

func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil // for the garbage collector
	*h = (*h)[:last]
	return r
}
