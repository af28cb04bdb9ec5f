package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/scopecount"
	"github.com/oncekey/oncekey/core/storage"
)

// scopes has the counts of the scopes whose new keys are limited. A scope without a key of the
// last window and without a place has none.
type scopes struct {
	since  time.Time // the origin of its times
	mutex  sync.Mutex
	counts map[string]*scopecount.Count
	swept  int64 // when the counts that were over were dropped
}

// sweepScopesEvery is in microseconds. Counts that are over are dropped this often, so a key
// pays little for it, and there are hardly more counts than two minutes have scopes.
const sweepScopesEvery = int64(time.Minute / time.Microsecond)

// Admit implements [storage.Limiter]. The counts take about 200 bytes for each scope with a new
// key in the last minutes, and 24 for each place. MaxRecords and MaxBytes do not count them.
func (s *scopes) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (storage.Admission, error) {
	if err := ctx.Err(); err != nil {
		return storage.Admission{}, fmt.Errorf("memstore: admit: %w", err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := time.Since(s.since).Microseconds()
	s.sweep(now)
	count := s.counts[p.Scope]
	if count == nil {
		if s.counts == nil {
			s.counts = make(map[string]*scopecount.Count)
		}
		count = new(scopecount.Count)
		s.counts[p.Scope] = count
	}
	admission, _ := count.Admit(now, p, ttl, limit)
	return admission, nil
}

// Keep implements [storage.Limiter].
func (s *scopes) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: keep: %w", err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if count := s.counts[p.Scope]; count != nil {
		count.Keep(time.Since(s.since).Microseconds(), p, ttl)
	}
	return nil
}

func (s *scopes) sweep(now int64) {
	if now-s.swept < sweepScopesEvery {
		return
	}
	s.swept = now
	for scope, count := range s.counts {
		if count.End() <= now {
			delete(s.counts, scope)
		}
	}
}
