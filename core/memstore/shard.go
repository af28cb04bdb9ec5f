package memstore

import (
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// shard is a part of the keys under one lock. The index leads to each of them, in
// one of the other two parts.
type shard struct {
	mutex    sync.Mutex
	index    index
	running  unfinished
	finished archive
	_        [cacheLine]byte // what comes next is another processor's
}

// cacheLine is the bytes that a processor takes at a time: two lines, as most
// prefetch the neighbour.
const cacheLine = 128

func (shard *shard) init(hash func(identity) uint64) {
	shard.index.init()
	shard.running.init()
	shard.finished.init(&shard.index, hash)
}

// find returns the place of the key's record, expired or not, or nowhere.
func (shard *shard) find(n *name) place {
	if p := shard.index.places[n.hash]; p != nowhere && *shard.identity(p) == n.id {
		return p
	}
	return shard.index.others[n.id]
}

// identity is that of the record at a place.
func (shard *shard) identity(p place) *identity {
	if p.isRunning() {
		return &shard.running.at(p).id
	}
	return shard.finished.at(p).identity()
}

// lookUp returns the key's record, running or released, or its entry, finished, or
// neither when there is none that has not expired.
func (s *Store) lookUp(shard *shard, n *name, now time.Duration) (*record, entry) {
	p := shard.find(n)
	switch {
	case p == nowhere:
	case p.isRunning():
		r := shard.running.at(p)
		if r.expires > now {
			return r, nil
		}
		s.remove(shard, r)
	default:
		if e := shard.finished.at(p); e.expires() > now {
			return nil, e
		}
		s.removeFinished(shard, p)
	}
	return nil, nil
}

// openTo returns the key's record, or nil when there is none, if the lease may
// still be settled: no other attempt has claimed the key, and it is not finished.
func (s *Store) openTo(shard *shard, n *name, l *storage.Lease, now time.Duration) (*record, error) {
	r, finished := s.lookUp(shard, n, now)
	if finished != nil || r != nil && !r.isOf(l) {
		return nil, storage.ErrLeaseLost
	}
	return r, nil
}

// insert adds a record beyond the bounds, for a settlement that must succeed.
func (s *Store) insert(shard *shard, n *name, key string, expires time.Duration) *record {
	s.records.Add(1)
	return shard.add(n, key, expires)
}

// keep sets when a record expires, and counts what it takes now.
func (s *Store) keep(shard *shard, r *record, expires time.Duration) {
	if r.expires != expires {
		r.expires = expires
		shard.running.deadlines.fix(r.position, expires)
	}
	before := r.cost
	r.cost = cost(r.key, r.fingerprint)
	s.recount(before, r.cost)
}

// recount counts what a record takes now in place of what it took before. Most take
// the same: then the sum, which all processors share, is left alone.
func (s *Store) recount(before, now int64) {
	if before != now {
		s.bytes.Add(now - before)
	}
}

// finish puts an entry in the place of the key's record, which may be nil. The
// count of records does not fall meanwhile: nobody takes the key's room.
func (s *Store) finish(shard *shard, r *record, d *draft, encoded []byte, expires time.Duration) {
	p := shard.finished.add(d, encoded, expires)
	if r == nil {
		shard.index.insert(&d.name.id, d.name.hash, p)
		s.records.Add(1)
		s.recount(0, d.cost())
		return
	}
	shard.index.replace(&r.id, r.hash, r.place, p)
	s.recount(r.cost, d.cost())
	shard.running.drop(r)
}

func (s *Store) remove(shard *shard, r *record) {
	s.records.Add(-1)
	s.recount(r.cost, 0)
	shard.index.remove(&r.id, r.hash, r.place)
	shard.running.drop(r)
}

func (s *Store) removeFinished(shard *shard, p place) {
	e := shard.finished.at(p)
	parts := shard.finished.remove(p)
	s.records.Add(-1)
	s.recount(e.cost(&parts), 0)
}

func (shard *shard) add(n *name, key string, expires time.Duration) *record {
	r := shard.running.add(n, key, expires)
	shard.index.insert(&n.id, n.hash, r.place)
	return r
}
