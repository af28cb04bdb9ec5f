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

	// recordOverhead is the memory of a running record beside its own bytes: the
	// struct without the key, and its places in the index and in the deadlines. A
	// finished record takes less. The rest covers the unused ends and the holes of chunks.
	recordOverhead = 256
	// fieldOverhead is the memory of a header field beside its own bytes.
	fieldOverhead = 40

	// evictionsPerAcquire is above one, so that requests drop records faster than
	// they make new ones. It is small, so that no request pays for a thousand drops.
	evictionsPerAcquire = 4
	// evictionsPerSweep bounds how long a sweep holds the lock of one shard.
	evictionsPerSweep = 64
)

// Option is a setting of [New].
type Option func(*Store)

// MaxRecords bounds the number of keys in the store. The default is 1,048,576. It
// panics when n is not positive.
func MaxRecords(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("memstore: MaxRecords(%d): want at least 1", n))
	}
	return func(s *Store) { s.maxRecords = int64(n) }
}

// MaxBytes bounds the memory of the store: keys, fingerprints, origins, steps,
// sketches, headers and bodies, and 256 bytes of overhead for each record. The
// default is 256 MiB.
//
// The bound applies to new keys. The steps and the response of an admitted key are
// always stored, so the sum may exceed the bound by those. The holes of dropped
// records are not in the sum: before compaction they take at most a third of the
// memory of the other records, and a few kilobytes in each of the store's 64 shards.
// MaxBytes panics when n is not positive.
func MaxBytes(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("memstore: MaxBytes(%d): want at least 1", n))
	}
	return func(s *Store) { s.maxBytes = n }
}

// Cache makes a full store drop the finished record that would expire first, where it
// would otherwise refuse a new key. Use Cache only for the hot tier of a tieredstore,
// in front of a durable store. Without a durable store a handler would run again for
// each dropped record.
func Cache() Option { return func(s *Store) { s.cache = true } }

// makeRoom drops finished records of a cache until that many more records and bytes
// are within the bounds. It reports whether it dropped any.
func (s *Store) makeRoom(records, bytes int64) (made bool) {
	for s.cache && (s.records.Load()+records > s.maxRecords || s.bytes.Load()+bytes > s.maxBytes) {
		if !s.forgetEarliest() {
			break
		}
		made = true
	}
	return made
}

// forgetEarliest drops the finished record that would expire first, and reports
// whether there was one. It looks at each shard, and locks only one.
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

// reserve counts one more record of that many bytes. Past the bounds it counts no
// record and returns false. The sums never exceed the bounds in between.
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

// cost is the size that MaxBytes counts for a record without steps and a result.
func cost(c *storage.Claim) int64 {
	return int64(recordOverhead + len(c.Key) + len(c.Fingerprint) + originTexts(&c.Origin))
}

// originTexts is the number of bytes of an origin's texts.
func originTexts(o *storage.Origin) int {
	return len(o.Route) + len(o.Holder) + len(o.KeyHash) + len(o.Trace) + len(o.Program)
}

// evict drops or buries up to limit expired records of a locked shard.
func (s *Store) evict(shard *shard, now time.Duration, limit int) (evicted bool) {
	for range limit {
		if p := shard.running.deadlines.expired(now); p != nowhere {
			s.expire(shard, shard.running.at(p), now)
		} else if p := shard.finished.deadlines.expired(now); p != nowhere {
			s.expireFinished(shard, p, now)
		} else {
			break
		}
		evicted = true
	}
	return evicted
}

// evictEverywhere drops or buries expired records of all shards, and reports whether
// there were any. Without expired records it only reads one number per shard.
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
