package memstore

import (
	"context"
	"fmt"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Inspector = (*Store)(nil)

// Lookup implements [storage.Inspector].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memstore: look up: %w", err)
	}
	n := s.identify(key)
	shard, now := s.lock(n.hash)
	defer shard.mutex.Unlock()
	r, finished := s.lookUp(shard, &n, now)
	switch {
	case finished != nil:
		return finished.record("", s.epoch), nil
	case r == nil || r.isForgotten():
		return nil, nil //nolint:nilnil // there is no record
	default:
		return r.show(now, s.epoch), nil
	}
}

// Settle implements [storage.Inspector].
func (s *Store) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	happened, err := records.Happened(confirmation)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("memstore: settle: %w", err)
	}
	n := s.identify(key)
	shard, now := s.lock(n.hash)
	defer shard.mutex.Unlock()
	r, _ := s.lookUp(shard, &n, now)
	if r == nil || r.released || r.Attempt != attempt || r.leaseEnd > now {
		return fmt.Errorf("memstore: settle %q: %w", key, storage.ErrNotAbandoned)
	}
	l := r.Lease
	l.Token, l.Steps = storage.NewToken(), "" // under another token the lease is lost for its holder
	if !happened {
		r.release(l)
		s.keep(shard, r, r.expires)
		return nil
	}
	d := newDraft(&n, &l, &storage.Result{
		State: storage.Unreplayable, Status: storage.StatusByHand, Retain: r.expires - now, Remember: r.Remember,
	})
	d.run = now - r.created
	s.finish(shard, r, &d, nil, r.expires)
	return nil
}

// Forget implements [storage.Inspector]. It also deletes the attempt number of a key that
// was released without steps, which counts as no record.
func (s *Store) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	if confirmation != storage.RerunIsSafe {
		return false, fmt.Errorf("memstore: %w", records.ErrRerunNotConfirmed)
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("memstore: forget: %w", err)
	}
	n := s.identify(key)
	shard, now := s.lock(n.hash)
	defer shard.mutex.Unlock()
	r, finished := s.lookUp(shard, &n, now)
	switch {
	case finished != nil:
		s.removeFinished(shard, shard.find(&n))
		return true, nil
	case r != nil:
		held := !r.isForgotten()
		s.remove(shard, r)
		return held, nil
	default:
		return false, nil
	}
}
