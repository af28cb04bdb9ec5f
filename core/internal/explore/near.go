package explore

import (
	"context"
	"encoding/hex"

	"github.com/oncekey/oncekey/core/storage"
)

// nearLink is a link to a store that a pod can also read in its own memory.
type nearLink struct{ link }

var _ storage.Finder = (*nearLink)(nil)

// Find implements storage.Finder. No fault reaches the memory of a process. For the
// judge, a record that was found is the result of an Acquire.
func (l *nearLink) Find(ctx context.Context, key [32]byte, digest storage.Digest) *storage.Record {
	name := hex.EncodeToString(key[:])
	v := l.world.store.finished(name, digest)
	if v.record == nil {
		return nil
	}
	who := l.world.reader(ctx, name)
	j := journey{link: &l.link, op: Acquire, who: who, n: l.world.count(who, Acquire)}
	j.log(Called, verdict{source: -1})
	j.log(Applied, v)
	j.log(Returned, v)
	return v.record
}

// finished returns the record of a finished key, or its tombstone, if the request has
// this digest.
func (s *store) finished(key string, digest storage.Digest) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.find(key, now)
	if r == nil || !r.isOver() || !digest.Repeats(r.lease.Digest) {
		return verdict{}
	}
	shown := r.show(now)
	shown.Fingerprint = ""
	s.spoil(shown, r.lease.Claim)
	return verdict{record: shown, life: s.lives[key], source: r.holder, word: shown.State.String()}
}
