package memstore

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core"
)

const (
	defaultMaxRecords = 1 << 20
	defaultMaxBytes   = 256 << 20

	// recordOverhead is what a record takes beside its own bytes: the struct,
	// its answer, its places in the map and in the heap.
	recordOverhead = 384
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

// MaxBytes bounds the memory that the store takes: keys, fingerprints, headers
// and bodies, and 384 bytes of overhead for each record. The default is 256 MiB.
// It limits which new keys are let in. The answer of a key that was let in is
// stored in any case, so the sum may go past the bound by those answers. It
// panics when n is not positive.
func MaxBytes(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("memstore: MaxBytes(%d): want at least 1", n))
	}
	return func(s *Store) { s.maxBytes = n }
}

// reserve counts one more record of that many bytes, or returns an error and
// counts nothing. At no time does it let in more than the bounds allow.
func (s *Store) reserve(cost int64) error {
	if addWithin(&s.records, 1, s.maxRecords) {
		if addWithin(&s.bytes, cost, s.maxBytes) {
			return nil
		}
		s.records.Add(-1)
	}
	return fmt.Errorf("memstore: %w: %d of %d records, %d of %d bytes",
		core.ErrStoreFull, s.records.Load(), s.maxRecords, s.bytes.Load(), s.maxBytes)
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

// cost is what MaxBytes counts for a record.
func cost(key, fingerprint string, answer *core.Record) int64 {
	sum := recordOverhead + len(key) + len(fingerprint)
	if answer != nil {
		sum += len(answer.Body)
		for _, field := range answer.Header {
			sum += fieldOverhead + len(field.Name) + len(field.Value)
		}
	}
	return int64(sum)
}

// evict drops up to limit expired records of a locked shard.
func (s *Store) evict(shard *shard, now time.Duration, limit int) (evicted bool) {
	for range limit {
		if len(shard.expiry) == 0 || shard.expiry[0].expires > now {
			break
		}
		s.remove(shard, shard.expiry[0])
		evicted = true
	}
	return evicted
}

// evictEverywhere drops expired records of all shards, and reports whether there
// were any. When there are none it costs a look at each shard's first record.
func (s *Store) evictEverywhere() (evicted bool) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mutex.Lock()
		if s.evict(shard, s.now(), evictionsPerSweep) {
			evicted = true
		}
		shard.mutex.Unlock()
	}
	return evicted
}
