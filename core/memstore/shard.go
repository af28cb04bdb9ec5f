package memstore

import (
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// shard is a part of the keys under one lock. The index leads to each record, in
// running or in finished.
type shard struct {
	mutex    sync.Mutex
	index    index
	running  unfinished
	finished archive
	_        [cacheLine]byte // keeps the next shard out of this cache line
}

// cacheLine is two cache lines in bytes, because most processors prefetch the
// neighbouring line.
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

// identity returns the identity of the record at a place.
func (shard *shard) identity(p place) *identity {
	if p.isRunning() {
		return &shard.running.at(p).id
	}
	return shard.finished.at(p).identity()
}

// lookUp returns the key's running or released record, or the entry of a finished
// key or of a tombstone. It returns neither if the key has no record.
func (s *Store) lookUp(shard *shard, n *name, now time.Duration) (*record, entry) {
	p := shard.find(n)
	switch {
	case p == nowhere:
		return nil, nil
	case p.isRunning():
		r := shard.running.at(p)
		if r.expires > now {
			return r, nil
		}
		p = s.expire(shard, r, now)
	default:
		e := shard.finished.at(p)
		if e.expires() > now {
			return nil, e
		}
		p = s.expireFinished(shard, p, now)
	}
	if p == nowhere {
		return nil, nil
	}
	return nil, shard.finished.at(p)
}

// openTo returns the key's record if the lease may still be settled: no other attempt
// has claimed the key, and the key is not finished. It returns nil if there is no
// record.
func (s *Store) openTo(shard *shard, n *name, l *storage.Lease, now time.Duration) (*record, error) {
	r, finished := s.lookUp(shard, n, now)
	if finished != nil || r != nil && !r.isOf(l) {
		return nil, storage.ErrLeaseLost
	}
	return r, nil
}

// admit claims a key that is not in the store, if the bounds allow it.
func (s *Store) admit(shard *shard, n *name, c *storage.Claim, now time.Duration) (l storage.Lease, admitted bool) {
	size := cost(c)
	if !s.reserve(size) {
		return l, false
	}
	r := shard.add(n, now+c.Retain)
	r.cost, r.created = size, now
	return s.claim(shard, r, lease(c, 1, false), now), true
}

// claim gives the record to the lease, from now on.
func (s *Store) claim(shard *shard, r *record, l storage.Lease, now time.Duration) storage.Lease {
	r.Lease, r.released = l, false
	r.leaseEnd = now + l.LockTTL
	s.keep(shard, r, now+l.Retain)
	return l
}

func lease(c *storage.Claim, attempt uint64, tookOver bool) storage.Lease {
	return storage.Lease{Claim: *c, Attempt: attempt, TookOver: tookOver}
}

// insert adds a record beyond the bounds, for a lease whose settlement must succeed.
func (s *Store) insert(shard *shard, n *name, l *storage.Lease, now time.Duration) *record {
	s.records.Add(1)
	r := shard.add(n, now+l.Retain)
	r.created = now - l.Age
	return r
}

// keep sets when a record expires, and updates the counted size.
func (s *Store) keep(shard *shard, r *record, expires time.Duration) {
	if r.expires != expires {
		r.expires = expires
		shard.running.deadlines.fix(r.position, expires)
	}
	before := r.cost
	r.cost = cost(&r.Claim) + int64(len(r.Steps))
	s.recount(before, r.cost)
}

// recount replaces a record's counted size. Most sizes do not change, and then the
// sum, which all processors share, is left alone.
func (s *Store) recount(before, now int64) {
	if before != now {
		s.bytes.Add(now - before)
	}
}

// finish replaces the key's record by an entry. r may be nil. The count of records
// does not fall in between, so that no new key takes the record's slot.
func (s *Store) finish(shard *shard, r *record, d *draft, encoded []byte, expires time.Duration) place {
	p := shard.finished.add(d, encoded, expires)
	if r == nil {
		shard.index.insert(&d.name.id, d.name.hash, p)
		s.records.Add(1)
		s.recount(0, d.cost())
		return p
	}
	shard.index.replace(&r.id, r.hash, r.place, p)
	s.recount(r.cost, d.cost())
	shard.running.drop(r)
	return p
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

func (shard *shard) add(n *name, expires time.Duration) *record {
	r := shard.running.add(n, expires)
	shard.index.insert(&n.id, n.hash, r.place)
	return r
}

// expire ends a running or released record whose Retain is over. It returns the place
// of the record's tombstone, or nowhere.
func (s *Store) expire(shard *shard, r *record, now time.Duration) place {
	until := r.expires + r.Remember
	if r.Remember == 0 || until <= now {
		s.remove(shard, r)
		return nowhere
	}
	r.Origin = storage.Origin{}
	d := newTombstone(&r.name, &r.Lease, 0)
	return s.finish(shard, r, &d, nil, until)
}

// expireFinished ends the record at a place of the archive: a finished record, or a
// tombstone. It returns the place of the finished record's tombstone, or nowhere.
func (s *Store) expireFinished(shard *shard, p place, now time.Duration) place {
	e := shard.finished.at(p)
	parts := e.parts()
	until := e.expires() + parts.remember
	if parts.remember == 0 || until <= now {
		s.removeFinished(shard, p)
		return nowhere
	}
	r := e.summary(s.epoch)
	n := name{*e.identity(), !e.has(spelledKey), s.hash(*e.identity())}
	d := newTombstone(&n, &storage.Lease{
		Claim: storage.Claim{Key: e.key(), Fingerprint: r.Fingerprint, Digest: r.Digest}, Attempt: r.Attempt,
	}, r.Status)
	s.recount(e.cost(&parts), d.cost())
	shard.finished.replace(p, &d, until)
	return shard.find(&n) // closing a hole may have moved it
}

// newTombstone is the draft of a tombstone. The lease has no Origin.
func newTombstone(n *name, l *storage.Lease, status int) draft {
	return newDraft(n, l, &storage.Result{State: storage.Expired, Status: status})
}
