package memstore

import (
	"context"

	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Finder = (*Store)(nil)

// Find implements [storage.Finder]. The record has no Fingerprint.
func (s *Store) Find(_ context.Context, key [32]byte, digest storage.Digest) *storage.Record {
	n := name{id: key, complete: true, hash: s.hash(key)}
	e := s.findFinished(&n)
	if e == nil {
		return nil
	}
	p := e.parts()
	if !digest.Repeats(p.digest) {
		return nil
	}
	return e.response(&p, s.epoch)
}

// findFinished returns the entry of a finished key, or nil.
func (s *Store) findFinished(n *name) entry {
	shard := s.shardOf(n.hash)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	_, finished := s.lookUp(shard, n, s.now())
	return finished
}
