package memstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// List implements [storage.Inspector]. The records have no Header, Body, Sketch and
// Steps; use Lookup for the whole record. A record that matches from the first page to
// the last is listed exactly once, whatever changes meanwhile. No key is listed twice.
//
// List looks at about a 64th of the keys under a lock, and at least once for each
// page, also where LookAt is less. So a few large pages cost less than many small
// pages.
//
// A cursor is valid only for the Store that returned it.
func (s *Store) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	budget, err := records.NewBudget(&filter, &page)
	if err != nil {
		return storage.Listing{}, fmt.Errorf("memstore: list: %w", err)
	}
	at, err := s.resume(page.Cursor)
	if err != nil {
		return storage.Listing{}, err
	}
	l := listing{store: s, filter: filter, limit: page.Limit}
	for {
		if err := ctx.Err(); err != nil {
			return storage.Listing{}, fmt.Errorf("memstore: list: %w", err)
		}
		budget.Looked += l.look(at)
		if len(l.entries) == l.limit {
			last := s.identify(l.entries[l.limit-1].Key)
			at.after = last.id[:]
			return storage.Listing{Entries: l.entries, Next: s.cursor(at), LookedAt: budget.Looked}, nil
		}
		if at = (position{shard: at.shard + 1}); at.shard == shardCount {
			return storage.Listing{Entries: l.entries, LookedAt: budget.Looked}, nil
		}
		if budget.Left() == 0 {
			return storage.Listing{Entries: l.entries, Next: s.cursor(at), LookedAt: budget.Looked}, nil
		}
	}
}

// listing is one call of List.
type listing struct {
	store   *Store
	filter  storage.Filter
	limit   int
	entries []storage.Entry
}

// listed is a candidate for a page: a running record or an entry.
type listed struct {
	id       identity
	running  *record
	finished entry
}

// look adds the first matching records of a shard that come after the position, in the
// order of their identities. It returns how many records it has passed.
func (l *listing) look(at position) (looked int) {
	s, shard := l.store, &l.store.shards[at.shard]
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	s.evict(shard, now, math.MaxInt) // so that each record is in its state of now
	var rest []listed
	for one := range shard.listed {
		if bytes.Compare(one.id[:], at.after) > 0 {
			rest = append(rest, one)
		}
	}
	slices.SortFunc(rest, func(a, b listed) int { return bytes.Compare(a.id[:], b.id[:]) })
	for i, one := range rest {
		if len(l.entries) == l.limit { // the next page looks at the others
			return i
		}
		if l.matches(&one, now) {
			l.entries = append(l.entries, one.entry(now, s.epoch))
		}
	}
	return len(rest)
}

// listed yields the records of a shard, without keys of which only the attempt number is
// left.
func (shard *shard) listed(yield func(listed) bool) {
	for _, r := range shard.running.records {
		if r != nil && !r.isForgotten() && !yield(listed{id: r.id, running: r}) {
			return
		}
	}
	for d := range shard.finished.deadlines.all {
		if e := shard.finished.at(d.place); !yield(listed{id: *e.identity(), finished: e}) {
			return
		}
	}
}

// matches decodes a record only if its state does not decide.
func (l *listing) matches(one *listed, now time.Duration) bool {
	f, state := &l.filter, one.state()
	switch {
	case f.Abandoned && state != storage.InProgress, len(f.States) > 0 && !slices.Contains(f.States, state):
		return false
	case !f.Abandoned && f.Route == "" && f.OlderThan == 0:
		return true
	default:
		return f.Matches(one.entry(now, l.store.epoch).Record, l.store.epoch.Add(now))
	}
}

func (l *listed) state() storage.State {
	if l.running != nil {
		return l.running.state()
	}
	return l.finished.state()
}

func (l *listed) entry(now time.Duration, epoch time.Time) storage.Entry {
	if l.running != nil {
		r := l.running.show(now, epoch)
		r.Steps = "" // up to a mebibyte in each of a thousand records
		return storage.Entry{Key: l.running.Key, Record: r}
	}
	return storage.Entry{Key: l.finished.key(), Record: l.finished.summary(epoch)}
}

// position is where a page begins.
type position struct {
	shard int
	after []byte // the identity of the last record that was listed, or none
}

// cursor returns the text of a position. Its hash proves that this store made the
// cursor: another store has another seed, and so another order.
func (s *Store) cursor(at position) string {
	text := append([]byte{byte(at.shard)}, at.after...)
	return hex.EncodeToString(binary.BigEndian.AppendUint64(text, maphash.Bytes(s.seed, text)))
}

// resume returns the position of a cursor.
func (s *Store) resume(cursor string) (at position, err error) {
	if cursor == "" {
		return position{}, nil
	}
	const hash, enough = 8, 100 // bytes
	text, err := hex.DecodeString(cursor)
	if err == nil && len(text) > hash {
		at = position{shard: int(text[0]), after: text[1 : len(text)-hash]}
	}
	if at.after == nil || s.cursor(at) != cursor {
		return position{}, fmt.Errorf("memstore: list: the cursor %.*q is not from this store: begin with an empty cursor", enough, cursor)
	}
	return at, nil
}
