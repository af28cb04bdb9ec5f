package memstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// maxPage is the largest page of a list.
	maxPage = 1000
	// hashDigits is the length of a cursor's prefix: a hash of the key that follows.
	hashDigits = 16
)

// errRerunNotConfirmed refuses a Forget without storage.RerunIsSafe.
var errRerunNotConfirmed = errors.New("memstore: forget: pass storage.RerunIsSafe if the request may run again")

var _ storage.Inspector = (*Store)(nil)

// Lookup implements [storage.Inspector].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memstore: look up: %w", err)
	}
	n := s.identify(key)
	shard := s.shardOf(n.hash)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r, finished := s.lookUp(shard, &n, now)
	switch {
	case finished != nil:
		return finished.record("", s.epoch), nil
	case r == nil || r.released:
		return nil, nil //nolint:nilnil // there is no record
	default:
		return r.inProgress(now, s.epoch), nil
	}
}

// List implements [storage.Inspector]. The records have no Header, Body, Sketch and
// Steps; use Lookup for the whole record. A record that stays in the state from the
// first page to the last is listed exactly once, whatever changes meanwhile. No key
// is listed twice.
//
// List looks at about a 64th of the keys under a lock, and at least once for each
// page. So a few large pages cost less than many small pages.
//
// A cursor is valid only for the Store that returned it.
func (s *Store) List(ctx context.Context, state storage.State, cursor string, limit int) (page []storage.Entry, next string, err error) {
	if _, known := storage.ParseState(state.String()); !known {
		return nil, "", fmt.Errorf("memstore: list records in state %d: want a state of package storage", state)
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
		passed := func(id identity) bool { return cursor != "" && i == resume && id.compare(last) <= 0 }
		page = append(page, s.list(&s.shards[i], state, passed, limit-len(page))...)
	}
	if len(page) == limit {
		next = s.cursorAfter(page[limit-1].Key)
	}
	return page, next, nil
}

// listed is a candidate for a page: a running record or an entry.
type listed struct {
	id       identity
	running  *record
	finished entry
}

// list returns the first records of a shard in the state that have not been passed, in
// the order of their identities.
func (s *Store) list(shard *shard, state storage.State, passed func(id identity) bool, limit int) []storage.Entry {
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	s.evict(shard, now, math.MaxInt) // so that each record is in its state of now
	// The records come in random order, so few of them are ever inserted.
	var first []listed
	insert := func(one listed) {
		place, _ := slices.BinarySearchFunc(first, one.id, func(other listed, id identity) int { return other.id.compare(id) })
		if place < limit && !passed(one.id) {
			first = slices.Insert(first, place, one)
			first = first[:min(len(first), limit)]
		}
	}
	if state == storage.InProgress {
		for _, r := range shard.running.records {
			if r != nil && !r.released {
				insert(listed{id: r.id, running: r})
			}
		}
	}
	for d := range shard.finished.deadlines.all {
		if e := shard.finished.at(d.place); e.state() == state {
			insert(listed{id: *e.identity(), finished: e})
		}
	}
	entries := make([]storage.Entry, len(first))
	for i, one := range first {
		entries[i] = one.entry(now, s.epoch)
	}
	return entries
}

func (l *listed) entry(now time.Duration, epoch time.Time) storage.Entry {
	if l.running != nil {
		r := l.running.inProgress(now, epoch)
		r.Steps = "" // up to a mebibyte in each of a thousand records
		return storage.Entry{Key: l.running.key(), Record: r}
	}
	return storage.Entry{Key: l.finished.key(), Record: l.finished.summary(epoch)}
}

// Forget implements [storage.Inspector]. It also deletes the attempt number of a
// released key, which counts as no record.
func (s *Store) Forget(ctx context.Context, key string, word storage.Word) (bool, error) {
	if word != storage.RerunIsSafe {
		return false, errRerunNotConfirmed
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("memstore: forget: %w", err)
	}
	n := s.identify(key)
	shard := s.shardOf(n.hash)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	r, finished := s.lookUp(shard, &n, s.now())
	switch {
	case finished != nil:
		s.removeFinished(shard, shard.find(&n))
		return true, nil
	case r != nil:
		held := !r.released
		s.remove(shard, r)
		return held, nil
	default:
		return false, nil
	}
}

// cursorAfter returns the cursor of the page that begins after the key. Its hash
// proves that this store made the cursor: another store has another seed, and so
// another order.
func (s *Store) cursorAfter(key string) string {
	return fmt.Sprintf("%0*x%s", hashDigits, maphash.String(s.seed, key), key)
}

// resume returns the last key of the previous page, and the shard of that key.
func (s *Store) resume(cursor string) (last identity, shard int, err error) {
	if cursor == "" {
		return last, 0, nil
	}
	key := ""
	if len(cursor) >= hashDigits {
		key = cursor[hashDigits:]
	}
	if s.cursorAfter(key) != cursor {
		const enough = 100
		return last, 0, fmt.Errorf("memstore: list: the cursor %.*q is not from this store: begin with an empty cursor", enough, cursor)
	}
	n := s.identify(key)
	return n.id, shardIndex(n.hash), nil
}
