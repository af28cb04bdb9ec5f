package memstore

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

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
