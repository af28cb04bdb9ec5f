// Package memstore keeps records in the memory of this process. It is the
// store for a service that runs as a single instance, and for tests.
//
//	store := memstore.New(memstore.MaxBytes(64 << 20))
//	guard, err := core.New(store, core.ScopeBy(userID))
//
// A Store starts no goroutine and needs no Close: it drops expired records while
// it serves requests. It is bounded, see [MaxRecords] and [MaxBytes]: when it is
// full it refuses new keys with [core.ErrStoreFull] rather than forget running
// or finished ones, because a forgotten key is a payment made twice.
//
// Finished records are kept as bytes in a few large pieces of memory: a record of
// an answer of 300 bytes takes about 500 in a store of many, and the garbage collector
// need not look at any of them, however many there are.
//
// With [Cache] it is a local cache of finished records, as the hot tier of a
// tieredstore.
//
// For operators it is a [core.Inspector].
//
// What it does not do: it shares nothing with other processes, and it forgets
// everything when this one ends. With two instances behind a load balancer, or
// where a retry may arrive after a deploy, use redisstore or pgstore.
package memstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core"
)

// shardCount spreads the keys over locks. More than the processors of any
// machine that a single-instance service is likely to have.
const shardCount = 64

// Store is a [core.Store] in memory. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	maxRecords int64
	maxBytes   int64
	cache      bool
	records    atomic.Int64
	bytes      atomic.Int64

	// start is the origin of all times in this store. Differences to it are
	// monotonic: nobody who sets the machine's clock expires a record.
	start  time.Time
	seed   maphash.Seed
	secret [sha256.Size]byte // see identify
	shards [shardCount]shard
}

var _ core.Store = (*Store)(nil)

// New returns an empty store, bounded as the options say.
func New(options ...Option) *Store {
	s := &Store{
		maxRecords: defaultMaxRecords,
		maxBytes:   defaultMaxBytes,
		start:      time.Now(),
		seed:       maphash.MakeSeed(),
	}
	rand.Read(s.secret[:]) // it never fails: it crashes the program instead
	for _, option := range options {
		option(s)
	}
	for i := range s.shards {
		s.shards[i].records = make(map[identity]*record)
		s.shards[i].finished = newArchive(s.tag)
	}
	return s
}

// Len is the number of records that the store holds at the moment, expired ones
// that no request has swept away yet included.
func (s *Store) Len() int { return int(s.records.Load()) }

// Acquire implements [core.Store]. When there is no room for a new key, after
// everything expired has been dropped, it returns core.ErrStoreFull, wrapped
// with the numbers.
func (s *Store) Acquire(ctx context.Context, c core.Claim) (core.Lease, *core.Record, error) {
	if err := ctx.Err(); err != nil {
		return core.Lease{}, nil, fmt.Errorf("memstore: acquire: %w", err)
	}
	id, _ := s.identify(c.Key)
	for {
		lease, found, finished, err := s.acquire(id, c)
		if finished != nil {
			return core.Lease{}, finished.record(c.Fingerprint), nil
		}
		// Full: what has expired in the other shards makes room. Each turn drops
		// something, so there is a last one.
		if err == nil || !s.evictEverywhere() && !s.makeRoom(1, cost(c.Key, c.Fingerprint)) {
			return lease, found, err
		}
	}
}

// acquire returns a lease, the record of a key that is not finished, the entry of
// one that is, or an error.
func (s *Store) acquire(id identity, c core.Claim) (core.Lease, *core.Record, entry, error) {
	shard := s.shardOf(id)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	s.evict(shard, now, evictionsPerAcquire)
	r, finished := s.lookUp(shard, id, now)
	switch {
	case finished != nil:
		return core.Lease{}, nil, finished, nil
	case r == nil:
		lease, err := s.admit(shard, id, c, now)
		return lease, nil, nil, err
	case r.released:
		return s.claim(shard, r, lease(c, r.attempt+1, false), now), nil, nil, nil
	case r.token == c.Token:
		return s.claim(shard, r, lease(c, r.attempt, r.tookOver), now), nil, nil, nil
	case r.leaseEnd <= now && c.TakeOver && r.fingerprint == c.Fingerprint:
		return s.claim(shard, r, lease(c, r.attempt+1, true), now), nil, nil, nil
	default:
		return core.Lease{}, r.inProgress(now), nil, nil
	}
}

// Complete implements [core.Store]. It succeeds in a full store too: a handler
// has run, and its answer must be kept.
func (s *Store) Complete(ctx context.Context, l core.Lease, res core.Result) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: complete: %w", err)
	}
	id, complete := s.identify(l.Key)
	d := newDraft(id, complete, l, res)
	var encoded []byte
	if limit := d.limit(); limit > largeEntry {
		encoded = d.appendTo(make([]byte, 0, limit))
	}
	err := s.complete(&d, encoded, l, res)
	s.makeRoom(0, 0)
	return err
}

func (s *Store) complete(d *draft, encoded []byte, l core.Lease, res core.Result) error {
	shard := s.shardOf(d.id)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r, finished := s.lookUp(shard, d.id, now)
	switch {
	case finished != nil && finished.token() == l.Token:
		return nil // a repetition
	case finished != nil, r != nil && r.token != l.Token:
		return core.ErrLeaseLost
	}
	s.finish(shard, r, d, encoded, now+res.Retain)
	return nil
}

// Release implements [core.Store].
func (s *Store) Release(ctx context.Context, l core.Lease) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: release: %w", err)
	}
	id, _ := s.identify(l.Key)
	shard := s.shardOf(id)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r, err := s.openTo(shard, id, l.Token, now)
	switch {
	case err != nil:
		return err
	case r != nil && !r.released && r.attempt != l.Attempt:
		return core.ErrLeaseLost
	case r == nil:
		return nil
	case l.Attempt <= 1:
		s.remove(shard, r)
		return nil
	default:
		r.hold(l)
		r.released, r.fingerprint = true, ""
		s.keep(shard, r, now+l.Retain)
		return nil
	}
}

// Extend implements [core.Store].
func (s *Store) Extend(ctx context.Context, l core.Lease, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: extend: %w", err)
	}
	id, _ := s.identify(l.Key)
	shard := s.shardOf(id)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r, err := s.openTo(shard, id, l.Token, now)
	if err != nil {
		return err
	}
	if r == nil {
		r = s.insert(shard, id, l.Key, now+l.Retain)
	}
	l.TTL = ttl
	s.claim(shard, r, l, now)
	return nil
}

// admit claims a key that the store does not hold, if there is room for it.
func (s *Store) admit(shard *shard, id identity, c core.Claim, now time.Duration) (core.Lease, error) {
	size := cost(c.Key, c.Fingerprint)
	if err := s.reserve(size); err != nil {
		return core.Lease{}, err
	}
	r := &record{id: id, key: c.Key, cost: size, expires: now + c.Retain}
	shard.add(r)
	return s.claim(shard, r, lease(c, 1, false), now), nil
}

// claim makes the record the lease's, from now.
func (s *Store) claim(shard *shard, r *record, l core.Lease, now time.Duration) core.Lease {
	r.hold(l)
	r.leaseEnd = now + l.TTL
	s.keep(shard, r, now+l.Retain)
	return l
}

func lease(c core.Claim, attempt uint64, tookOver bool) core.Lease {
	return core.Lease{Claim: c, Attempt: attempt, TookOver: tookOver}
}

func (s *Store) now() time.Duration { return time.Since(s.start) }

func (s *Store) shardOf(id identity) *shard { return &s.shards[s.shardIndex(id)] }

func (s *Store) shardIndex(id identity) int {
	return int(maphash.Bytes(s.seed, id[:]) % shardCount)
}

// tag is made of the part of the hash that does not choose the shard.
func (s *Store) tag(id identity) uint32 {
	return uint32(maphash.Bytes(s.seed, id[:]) >> 32)
}
