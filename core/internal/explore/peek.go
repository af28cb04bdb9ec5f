package explore

import (
	"context"
	"encoding/hex"

	"github.com/oncekey/oncekey/core/storage"
)

// near returns the finished record of a retry, if the pod can read the store in its own
// memory: no fault reaches it, and the store asks for no claim (see storage.Request). For
// the judge it is the result of an Acquire.
func (l *link) near(ctx context.Context, request storage.Request) *storage.Record {
	key, digest := request.Peek()
	if _, asks := reconcilerOf(ctx); asks || !l.world.plan.Near || ctx.Err() != nil {
		return nil
	}
	name := hex.EncodeToString(key[:])
	v := l.world.store.finished(name, digest)
	if v.record == nil {
		return nil
	}
	who := l.world.reader(ctx, name)
	j := journey{link: l, op: Acquire, who: who, n: l.world.count(who, Acquire)}
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
