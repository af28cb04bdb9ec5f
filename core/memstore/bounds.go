package memstore

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	defaultMaxRecords = 1 << 20
	defaultMaxBytes   = 256 << 20

	// recordOverhead is what a running record takes beside its own bytes: the
	// struct, its places in the index and in the deadlines. A finished one takes less, and
	// leaves the rest for the ends and the holes of chunks.
	recordOverhead = 256
	// fieldOverhead is what a header field takes beside its own bytes.
	fieldOverhead = 40

	// evictionsPerAcquire is more than one, so that traffic drops records faster
	// than it makes them, and few, so that no request pays for a thousand others.
	evictionsPerAcquire = 4
	// evictionsPerSweep bounds how long a sweep holds the lock of one shard.
	evictionsPerSweep = 64
)

// Option is a setting of [New].
type Option func(*Store)

// MaxRecords bounds how many keys the store holds. The default is 1,048,576.
// It panics when n is not positive: a store that takes no key serves nobody.
func MaxRecords(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("memstore: MaxRecords(%d): want at least 1", n))
	}
	return func(s *Store) { s.maxRecords = int64(n) }
}

// MaxBytes bounds the memory that the store takes: keys, fingerprints, sketches,
// headers and bodies, and 256 bytes of overhead for each record. The default is 256 MiB.
// It limits which new keys are let in. The answer of a key that was let in is
// stored in any case, so the sum may go past the bound by those answers. What
// dropped records leave behind is not in the sum: it is at most a third of what the
// others take, and a few kilobytes for each of 64 parts of the store, before it is
// put together and given back. It panics when n is not positive.
func MaxBytes(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("memstore: MaxBytes(%d): want at least 1", n))
	}
	return func(s *Store) { s.maxBytes = n }
}

// Cache makes a full store forget the finished record that would expire first,
// rather than refuse a new key. It is for a store that is the hot tier of a
// tieredstore, in front of one that forgets nothing: alone, it would let handlers
// run again.
func Cache() Option { return func(s *Store) { s.cache = true } }

// makeRoom makes a cache forget finished records until that much more is within
// the bounds, and reports whether it forgot any.
func (s *Store) makeRoom(records, bytes int64) (made bool) {
	for s.cache && (s.records.Load()+records > s.maxRecords || s.bytes.Load()+bytes > s.maxBytes) {
		if !s.forgetEarliest() {
			break
		}
		made = true
	}
	return made
}

// forgetEarliest forgets the finished record that would expire first, and reports
// whether there was one. It is a look at each shard: only one is locked.
func (s *Store) forgetEarliest() bool {
	var first *shard
	earliest := int64(never)
	for i := range s.shards {
		if expires := s.shards[i].finished.deadlines.earliest.Load(); expires < earliest {
			first, earliest = &s.shards[i], expires
		}
	}
	if first == nil {
		return false
	}
	first.mutex.Lock()
	defer first.mutex.Unlock()
	if top := first.finished.deadlines.first(); top.place != nowhere {
		s.removeFinished(first, top.place)
	}
	return true
}

// reserve counts one more record of that many bytes, or counts nothing when it is
// past the bounds. At no time does it let in more than they allow.
func (s *Store) reserve(cost int64) bool {
	if !addWithin(&s.records, 1, s.maxRecords) {
		return false
	}
	if !addWithin(&s.bytes, cost, s.maxBytes) {
		s.records.Add(-1)
		return false
	}
	return true
}

func (s *Store) errFull() error {
	return fmt.Errorf("memstore: %w: %d of %d records, %d of %d bytes",
		storage.ErrStoreFull, s.records.Load(), s.maxRecords, s.bytes.Load(), s.maxBytes)
}

func addWithin(sum *atomic.Int64, delta, limit int64) bool {
	for {
		before := sum.Load()
		if before+delta > limit {
			return false
		}
		if sum.CompareAndSwap(before, before+delta) {
			return true
		}
	}
}

// cost is what MaxBytes counts for a record that is not finished; see entry.cost.
func cost(key, fingerprint string) int64 {
	return int64(recordOverhead + len(key) + len(fingerprint))
}

// evict drops up to limit expired records of a locked shard.
func (s *Store) evict(shard *shard, now time.Duration, limit int) (evicted bool) {
	for range limit {
		if p := shard.running.deadlines.expired(now); p != nowhere {
			s.remove(shard, shard.running.at(p))
		} else if p := shard.finished.deadlines.expired(now); p != nowhere {
			s.removeFinished(shard, p)
		} else {
			break
		}
		evicted = true
	}
	return evicted
}

// evictEverywhere drops expired records of all shards, and reports whether there
// were any. When there are none it costs a look at each shard.
func (s *Store) evictEverywhere() (evicted bool) {
	now := s.now()
	for i := range s.shards {
		shard := &s.shards[i]
		if !shard.running.deadlines.anyExpired(now) && !shard.finished.deadlines.anyExpired(now) {
			continue
		}
		shard.mutex.Lock()
		if s.evict(shard, now, evictionsPerSweep) {
			evicted = true
		}
		shard.mutex.Unlock()
	}
	return evicted
}
