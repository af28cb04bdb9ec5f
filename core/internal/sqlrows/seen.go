package sqlrows

import (
	"hash/maphash"
	"sync/atomic"
)

// A store remembers 1<<14 keys, of 8 bytes each. With one key in each bucket, keys in use
// would displace each other: 6 % of 1,024 keys, and each of their retries would cost an
// INSERT.
const (
	seenBuckets = 1 << 11
	seenWays    = 8
)

// Seen remembers the newest keys of this process. A claim of a key that is not among
// them is most likely the key's first, so the store tries an INSERT before it reads.
// That saves a first-time request one of three round trips. A retry in another process
// costs one INSERT that adds no row. A forgotten key, and two keys with one hash, cost
// a statement too, and change no result.
type Seen struct {
	seed    maphash.Seed
	buckets [seenBuckets][seenWays]atomic.Uint64
}

// NewSeen returns a Seen without keys.
func NewSeen() *Seen { return &Seen{seed: maphash.MakeSeed()} }

// Has reports whether a key is among them.
func (s *Seen) Has(key string) bool {
	bucket, hash := s.place(key)
	for i := range bucket {
		if bucket[i].Load() == hash {
			return true
		}
	}
	return false
}

// Add remembers a key, and reports whether it was new. The key becomes the first of its
// bucket, and the keys before its old place, or all, move by one.
func (s *Seen) Add(key string) bool {
	bucket, hash := s.place(key)
	moved := hash
	for i := range bucket {
		if moved = bucket[i].Swap(moved); moved == hash {
			return false
		}
	}
	return true
}

func (s *Seen) place(key string) (bucket *[seenWays]atomic.Uint64, hash uint64) {
	hash = maphash.String(s.seed, key)
	return &s.buckets[hash%seenBuckets], hash
}
