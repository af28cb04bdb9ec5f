package sqlstore

import (
	"hash/maphash"
	"sync/atomic"
)

// seenKeys is how many keys a store remembers to have seen, of 8 bytes each.
const seenKeys = 1 << 14

// seen remembers the newest keys of this process. A claim of a key that is not among
// them is most likely the key's first, so the store tries an INSERT before it reads.
// That saves a first-time request one of three round trips. A retry in another process
// costs one INSERT that adds no row. A forgotten key, and two keys with one hash, cost
// a statement too, and change no result.
type seen struct {
	seed   maphash.Seed
	hashes [seenKeys]atomic.Uint64
}

func newSeen() *seen { return &seen{seed: maphash.MakeSeed()} }

// add remembers a key, and reports whether it was new.
func (s *seen) add(key string) bool {
	hash := maphash.String(s.seed, key)
	return s.hashes[hash%seenKeys].Swap(hash) != hash
}
