// Package memstore keeps records in the memory of this process. It is the
// store for a service that runs as a single instance, and for tests.
//
//	store := memstore.New(memstore.MaxBytes(64 << 20))
//	guard, err := core.New(store, core.ScopeBy(userID))
//
// A Store starts no goroutine and needs no Close: it drops expired records while
// it serves requests. It is bounded, see [MaxRecords] and [MaxBytes]: when it is
// full it refuses new keys with [storage.ErrStoreFull] rather than forget running
// or finished ones, because a forgotten key is a payment made twice.
//
// Finished records are kept as bytes in a few large pieces of memory: a record of
// a response of 300 bytes takes about 500 in a store of many, and the garbage collector
// need not look at any of them, however many there are.
//
// With [Cache] it is a local cache of finished records, as the hot tier of a
// tieredstore.
//
// For operators it is a [storage.Inspector].
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

	"github.com/oncekey/oncekey/core/storage"
)

// shardCount spreads the keys over locks. More than the processors of any
// machine that a single-instance service is likely to have.
const shardCount = 1 << shardBits

// Store is a [storage.Store] in memory. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	maxRecords int64
	maxBytes   int64
	cache      bool

	// start is the origin of all times in this store. Differences to it are
	// monotonic: nobody who sets the machine's clock expires a record.
	start  time.Time
	seed   maphash.Seed
	secret [sha256.Size]byte // see identify

	_       [cacheLine]byte // what is above does not change
	records atomic.Int64
	bytes   atomic.Int64
	_       [cacheLine]byte

	shards [shardCount]shard
}

var _ storage.Checker = (*Store)(nil)

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
		s.shards[i].init(s.hash)
	}
	return s
}

// Len is the number of records that the store holds at the moment, expired ones
// that no request has swept away yet included.
func (s *Store) Len() int { return int(s.records.Load()) }

// Acquire implements [storage.Store]. When there is no room for a new key, after
// everything expired has been dropped, it returns storage.ErrStoreFull, wrapped
// with the numbers.
func (s *Store) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Lease{}, nil, fmt.Errorf("memstore: acquire: %w", err)
	}
	n := s.identify(c.Key)
	for {
		lease, found, finished, full := s.acquire(&n, &c)
		switch {
		case finished != nil:
			return storage.Lease{}, finished.record(c.Fingerprint), nil
		case !full:
			return lease, found, nil
		}
		// What has expired in the other shards makes room. Each turn drops something,
		// so there is a last one.
		if !s.evictEverywhere() && !s.makeRoom(1, cost(c.Key, c.Fingerprint)) {
			return storage.Lease{}, nil, s.errFull()
		}
	}
}

// acquire returns a lease, the record of a key that is not finished, the entry of
// one that is, or that there is no room.
func (s *Store) acquire(n *name, c *storage.Claim) (l storage.Lease, found *storage.Record, finished entry, full bool) {
	shard := s.shardOf(n.hash)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	s.evict(shard, now, evictionsPerAcquire)
	r, finished := s.lookUp(shard, n, now)
	switch {
	case finished != nil:
		return l, nil, finished, false
	case r == nil:
		l, admitted := s.admit(shard, n, c, now)
		return l, nil, nil, !admitted
	case r.released:
		l = lease(c, r.attempt+1, false)
	case r.token == c.Token:
		l = lease(c, r.attempt, r.tookOver)
	case r.leaseEnd <= now && c.TakeOver && c.Repeats(r.fingerprint, r.digest):
		l = lease(c, r.attempt+1, true)
	default:
		return l, r.inProgress(now), nil, false
	}
	return s.claim(shard, r, l, now), nil, nil, false
}

// Complete implements [storage.Store]. It succeeds in a full store too: a handler
// has run, and its answer must be kept.
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: complete: %w", err)
	}
	if res.State == storage.Unreplayable {
		res.Header, res.Body = nil, nil
	}
	n := s.identify(l.Key)
	d := newDraft(&n, &l, &res)
	var encoded []byte
	if limit := d.limit(); limit > largeEntry {
		encoded = d.appendTo(make([]byte, 0, limit))
	}
	err := s.complete(&d, encoded)
	s.makeRoom(0, 0)
	return err
}

func (s *Store) complete(d *draft, encoded []byte) error {
	shard := s.shardOf(d.name.hash)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r, finished := s.lookUp(shard, d.name, now)
	switch {
	case finished != nil && finished.isOf(d.lease):
		return nil // a repetition
	case finished != nil, r != nil && !r.isOf(d.lease):
		return storage.ErrLeaseLost
	}
	s.finish(shard, r, d, encoded, now+d.result.Retain)
	return nil
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: release: %w", err)
	}
	n := s.identify(l.Key)
	shard := s.shardOf(n.hash)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r, err := s.openTo(shard, &n, &l, now)
	switch {
	case err != nil:
		return err
	case r == nil:
		return nil
	case l.Attempt <= 1:
		s.remove(shard, r)
		return nil
	default:
		r.hold(&l)
		r.released, r.fingerprint, r.digest = true, "", storage.Digest{}
		s.keep(shard, r, now+l.Retain)
		return nil
	}
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: extend: %w", err)
	}
	n := s.identify(l.Key)
	shard := s.shardOf(n.hash)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r, err := s.openTo(shard, &n, &l, now)
	if err != nil {
		return err
	}
	if r == nil {
		r = s.insert(shard, &n, l.Key, now+l.Retain)
	}
	l.TTL = ttl
	s.claim(shard, r, l, now)
	return nil
}

// Check implements [storage.Checker]. Memory is always there, so it returns an error
// only for a context that has ended.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: check: %w", err)
	}
	return nil
}

// admit claims a key that the store does not hold, if there is room for it.
func (s *Store) admit(shard *shard, n *name, c *storage.Claim, now time.Duration) (l storage.Lease, admitted bool) {
	size := cost(c.Key, c.Fingerprint)
	if !s.reserve(size) {
		return l, false
	}
	r := shard.add(n, c.Key, now+c.Retain)
	r.cost = size
	return s.claim(shard, r, lease(c, 1, false), now), true
}

// claim makes the record the lease's, from now.
func (s *Store) claim(shard *shard, r *record, l storage.Lease, now time.Duration) storage.Lease {
	r.hold(&l)
	r.leaseEnd = now + l.TTL
	s.keep(shard, r, now+l.Retain)
	return l
}

func lease(c *storage.Claim, attempt uint64, tookOver bool) storage.Lease {
	return storage.Lease{Claim: *c, Attempt: attempt, TookOver: tookOver}
}

func (s *Store) now() time.Duration { return time.Since(s.start) }

func (s *Store) shardOf(hash uint64) *shard { return &s.shards[shardIndex(hash)] }

func shardIndex(hash uint64) int { return int(hash % shardCount) }
