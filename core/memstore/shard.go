package memstore

import (
	"container/heap"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core"
)

// shard is a part of the keys under one lock.
type shard struct {
	mutex   sync.Mutex
	records map[string]*record
	expiry  expiryHeap
}

// record is what the store holds for one key. It is running, released or, when
// it has an answer, finished.
type record struct {
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
	// answer is shared by all replays, and never modified.
	answer *core.Record
	cost   int64
	// position is the record's index in the shard's heap.
	position int
}

// openTo reports whether the token may still settle: nobody else has claimed the
// key, and it is not finished. A nil record, forgotten, is open to anyone.
func (r *record) openTo(token core.Token) bool {
	return r == nil || r.token == token && r.answer == nil
}

// hold gives the record to the lease's holder, running.
func (r *record) hold(l core.Lease) {
	r.token, r.attempt, r.tookOver = l.Token, l.Attempt, l.TookOver
	r.fingerprint, r.released, r.answer = l.Fingerprint, false, nil
}

func (r *record) inProgress(now time.Duration) *core.Record {
	return &core.Record{
		State:       core.InProgress,
		Fingerprint: r.fingerprint,
		Attempt:     r.attempt,
		LeaseLeft:   r.leaseEnd - now,
	}
}

// lookUp returns the key's record, or nil when there is none that has not expired.
func (s *Store) lookUp(shard *shard, key string, now time.Duration) *record {
	r := shard.records[key]
	if r == nil || r.expires > now {
		return r
	}
	s.remove(shard, r)
	return nil
}

// insert adds a record beyond the bounds, for a settlement that must succeed.
func (s *Store) insert(shard *shard, key string, expires time.Duration) *record {
	r := &record{key: key, expires: expires}
	s.records.Add(1)
	shard.add(r)
	return r
}

// keep sets when a record expires, and counts what it takes now.
func (s *Store) keep(shard *shard, r *record, expires time.Duration) {
	r.expires = expires
	heap.Fix(&shard.expiry, r.position)
	before := r.cost
	r.cost = cost(r.key, r.fingerprint, r.answer)
	s.bytes.Add(r.cost - before)
}

func (s *Store) remove(shard *shard, r *record) {
	delete(shard.records, r.key)
	heap.Remove(&shard.expiry, r.position)
	s.records.Add(-1)
	s.bytes.Add(-r.cost)
}

func (shard *shard) add(r *record) {
	shard.records[r.key] = r
	heap.Push(&shard.expiry, r)
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
