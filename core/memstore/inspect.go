package memstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
)

const (
	// maxPage is the largest page of a list.
	maxPage = 1000
	// hashDigits is how a cursor begins: with the hash of the key that follows.
	hashDigits = 16
)

// errNoWord is for who has not given his word.
var errNoWord = errors.New("memstore: forget: the caller must say core.RerunIsSafe")

var _ core.Inspector = (*Store)(nil)

// Lookup implements [core.Inspector].
func (s *Store) Lookup(ctx context.Context, key string) (*core.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memstore: look up: %w", err)
	}
	shard := s.shardOf(key)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r := s.lookUp(shard, key, now)
	switch {
	case r == nil || r.released:
		return nil, nil //nolint:nilnil // there is none
	case r.answer != nil:
		return r.answer, nil
	default:
		return r.inProgress(now), nil
	}
}

// List implements [core.Inspector]. The records come without Header and Body:
// Lookup has them. One that is there, and in the state, from the first page to
// the last is listed exactly once, and no key is listed twice, whatever else
// changes meanwhile. No lock is held for longer than it takes to look at about a
// 64th of the keys; since each page does that at least once, a few large pages
// cost less than many small ones.
//
// A cursor means nothing to any other Store, nor to this program's next run.
func (s *Store) List(ctx context.Context, state core.State, cursor string, limit int) (page []core.Entry, next string, err error) {
	if _, known := core.ParseState(state.String()); !known {
		return nil, "", fmt.Errorf("memstore: list records in state %d: there is no such state", state)
	}
	if limit < 1 || limit > maxPage {
		return nil, "", fmt.Errorf("memstore: list %d records: want from 1 to %d", limit, maxPage)
	}
	last, resume, err := s.resume(cursor)
	if err != nil {
		return nil, "", err
	}
	for i := resume; i < shardCount && len(page) < limit; i++ {
		if err := ctx.Err(); err != nil {
			return nil, "", fmt.Errorf("memstore: list: %w", err)
		}
		passed := func(key string) bool { return cursor != "" && i == resume && key <= last }
		page = append(page, s.shards[i].list(state, passed, limit-len(page), s.now)...)
	}
	if len(page) == limit {
		next = s.cursorAfter(page[limit-1].Key)
	}
	return page, next, nil
}

// list returns the first records in the state, in the order of their keys, that
// have not been passed.
func (shard *shard) list(state core.State, passed func(key string) bool, limit int, clock func() time.Duration) []core.Entry {
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := clock()
	// The map comes in random order, so that few of the keys are ever inserted.
	first := make([]*record, 0, min(limit, len(shard.records))+1)
	for key, r := range shard.records {
		if r.state() != state || r.expires <= now || passed(key) {
			continue
		}
		place, _ := slices.BinarySearchFunc(first, key, func(other *record, key string) int { return strings.Compare(other.key, key) })
		if place < limit {
			first = slices.Insert(first, place, r)
			first = first[:min(len(first), limit)]
		}
	}
	entries := make([]core.Entry, len(first))
	for i, r := range first {
		entries[i] = core.Entry{Key: r.key, Record: r.summary(now)}
	}
	return entries
}

// state is zero for a released record, which counts as none.
func (r *record) state() core.State {
	switch {
	case r.released:
		return 0
	case r.answer != nil:
		return r.answer.State
	default:
		return core.InProgress
	}
}

// summary is the record without what its handler answered, but for the status.
func (r *record) summary(now time.Duration) *core.Record {
	if r.answer == nil {
		return r.inProgress(now)
	}
	return &core.Record{
		State: r.answer.State, Fingerprint: r.answer.Fingerprint, Attempt: r.answer.Attempt, Status: r.answer.Status,
	}
}

// Forget implements [core.Inspector]. A released key counts as none, and its
// attempt number is forgotten too.
func (s *Store) Forget(ctx context.Context, key string, word core.Word) (bool, error) {
	if word != core.RerunIsSafe {
		return false, errNoWord
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("memstore: forget: %w", err)
	}
	shard := s.shardOf(key)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	r := s.lookUp(shard, key, s.now())
	if r == nil {
		return false, nil
	}
	s.remove(shard, r)
	return !r.released, nil
}

// cursorAfter is the cursor of the page that begins after the key. The hash
// proves that this store has made it: another one has another seed, and so
// another order.
func (s *Store) cursorAfter(key string) string {
	return fmt.Sprintf("%0*x%s", hashDigits, maphash.String(s.seed, key), key)
}

// resume returns the last key of the page before, and the shard it was in.
func (s *Store) resume(cursor string) (last string, shard int, err error) {
	if cursor == "" {
		return "", 0, nil
	}
	if len(cursor) >= hashDigits {
		last = cursor[hashDigits:]
	}
	if s.cursorAfter(last) != cursor {
		const enough = 100
		return "", 0, fmt.Errorf("memstore: list: the cursor %.*q is none of this store's: begin with an empty one", enough, cursor)
	}
	return last, s.shardIndex(last), nil
}
