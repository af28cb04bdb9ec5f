package sqlrows

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/internal/scopecount"
	"github.com/oncekey/oncekey/core/storage"
)

// Scopes counts the keys of scopes as storage.Limiter asks. The count of a scope is the body of a
// row in the table of the records, under a key that no record has. A call reads the row, and
// replaces exactly the row that it has read: two statements, or one if it changes nothing.
type Scopes struct {
	records *Records
	turns   turns
}

// NewScopes returns the counts in the table of the records.
func NewScopes(r *Records) *Scopes {
	return &Scopes{records: r, turns: turns{scopes: make(map[string]*turn)}}
}

const (
	// scoped is the state of a row with the count of a scope.
	scoped = "scope"
	// scopeKey begins its key, and the last digits of the scope's hash follow.
	scopeKey, scopeDigits = "scope:", 58
)

// Admit implements [storage.Limiter], in two statements, and in one for a key that is refused.
// Calls for one scope that come together in this process take turns.
func (s *Scopes) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (a storage.Admission, err error) {
	err = s.change(ctx, "admit", p.Scope, func(now int64, c *scopecount.Count) (changed bool) {
		a, changed = c.Admit(now, p, ttl, limit)
		return changed
	})
	return a, err
}

// Keep implements [storage.Limiter], in two statements.
func (s *Scopes) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	return s.change(ctx, "keep", p.Scope, func(now int64, c *scopecount.Count) bool { return c.Keep(now, p, ttl) })
}

// change applies a change to the count of a scope, and repeats it while other callers are faster.
func (s *Scopes) change(ctx context.Context, operation, scope string, apply func(now int64, c *scopecount.Count) bool) error {
	key := scopeKey + scope[max(0, len(scope)-scopeDigits):]
	err := s.records.Retry(ctx, func() error {
		// The first try needs no turn, because most scopes have one caller at a time.
		if done, err := s.once(ctx, key, apply); err != nil || done {
			return err
		}
		end, err := s.turns.take(ctx, key)
		if err != nil {
			return err
		}
		defer end()
		for range rounds {
			if done, err := s.once(ctx, key, apply); err != nil || done {
				return err
			}
		}
		return errors.New("other callers changed the count in every round")
	})
	return s.records.Failure(operation, key, err)
}

// once reads a count and writes it changed. It returns false when another caller was faster, and
// after it has added the row, because only a row has the time of the database.
func (s *Scopes) once(ctx context.Context, key string, apply func(now int64, c *scopecount.Count) bool) (bool, error) {
	r, err := s.records.Pool.Find(ctx, Read, KeyOf(key))
	if err != nil {
		return false, err
	}
	if r == nil {
		_, err := s.records.write(ctx, s.records.Pool, Insert, nil, scopeRow(key, nil, time.Minute.Microseconds()))
		return false, err
	}
	if r.version != version || r.state != scoped {
		return false, records.Corrupt("its version is %d and its state %s, want %d and %s", r.version, records.Excerpt(r.state), version, scoped)
	}
	count, err := scopecount.Parse(r.content) // of an expired row all is over
	if err != nil {
		return false, err
	}
	if !apply(r.now, &count) {
		return true, nil
	}
	return s.records.write(ctx, s.records.Pool, Insert, r, scopeRow(key, count.Bytes(), max(0, count.End()-r.now)))
}

// scopeRow returns the arguments of a row that is kept for some microseconds.
func scopeRow(key string, count []byte, kept int64) *Arguments {
	l := storage.Lease{Claim: storage.Claim{Key: key, Token: storage.NewToken()}, Attempt: 1}
	a := of(&l)
	a[pState], a[pBody], a[pKeep], a[pFirst] = scoped, nullable(count), kept, kept
	a[pFingerprint], a[pTookOver], a[pAge], a[pKeepClaimed], a[pKeepSteps] = []byte{}, int64(0), int64(0), int64(0), int64(0)
	return a
}

// turns let one caller at a time change a count, so that the callers of one process do not make
// each other repeat their statements.
type turns struct {
	mu     sync.Mutex
	scopes map[string]*turn // those with callers
}

type turn struct {
	room    chan struct{} // for one
	callers int
}

// take waits for the turn of a caller, or until ctx ends. The caller must call end.
func (t *turns) take(ctx context.Context, key string) (end func(), err error) {
	t.mu.Lock()
	own := t.scopes[key]
	if own == nil {
		own = &turn{room: make(chan struct{}, 1)}
		t.scopes[key] = own
	}
	own.callers++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.callers--; own.callers == 0 {
			delete(t.scopes, key)
		}
	}
	select {
	case own.room <- struct{}{}:
		return func() { <-own.room; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
